package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/ledger"
)

// Range is a stretch of a partition, [From, To).
type Range struct {
	Partition  ledger.Partition
	Partitions int32 // how many the topic has
	From, To   int64
}

// Scan reads ranges, with a client of its own, and calls each(i, records, next) as it reads: with the records of ranges[i] since the last call,
// decoded as for a subscription, and the offset where it goes on. A range is read when next reaches its To. Scan returns nil when all are read or
// the time within which it may read is over, and otherwise why it could not read on: also where that time has brought nothing of a range but errors.
func Scan(ctx context.Context, cfg Config, ranges []Range, within time.Duration, each func(i int, records []ledger.Record, next int64) error) error {
	options, err := ClientOptions(cfg)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	reading, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	log := NewLog(client)
	rd := New(client, log, cfg)
	running.Go(func() { rd.Run(reading) })
	s := scan{ranges: ranges, each: each, failed: make([]error, len(ranges))}
	for i, r := range ranges {
		if r.From < r.To {
			s.left++
			s.failed[i] = errNothing
			s.readings = append(s.readings, rd.Add(ctx, r.Partition, r.Partitions, ledger.Position{Offset: r.From, LeaderEpoch: -1}))
		} else {
			s.readings = append(s.readings, nil)
		}
	}
	end := time.NewTimer(within)
	defer end.Stop()
	for s.left > 0 {
		select {
		case u := <-rd.Out():
			if err := s.unit(u); err != nil {
				return err
			}
		case <-end.C:
			return s.why(ctx, log)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// scan is the state of a Scan.
type scan struct {
	ranges   []Range
	readings []*Reading // by range; nil once it is read
	left     int
	each     func(i int, records []ledger.Record, next int64) error
	failed   []error // by range: why nothing of it is read yet; nil: something is
}

// errNothing is of a range of which neither records nor an error have come: the client tells nobody of errors after which it asks again.
var errNothing = errors.New("nothing has come")

// why says why nothing of a range was read; nil if something of each was, or can be.
func (s *scan) why(ctx context.Context, log *Log) error {
	for i, r := range s.ranges {
		if errors.Is(s.failed[i], errNothing) {
			s.failed[i] = nil
			asking, cancel := context.WithTimeout(ctx, 2*time.Second)
			err := log.Readable(asking, r.Partition, r.From)
			cancel()
			if err != nil {
				err = s.unit(Unit{Parts: []Part{{Of: s.readings[i], From: r.From, Err: err}}})
			}
			if err != nil {
				return err
			}
		}
		if s.failed[i] != nil {
			return s.failed[i]
		}
	}
	return nil
}

// unit gives what was read. Where a partition fails, the reader tries again by itself, unless the log does not have the range any more.
func (s *scan) unit(u Unit) error {
	for k := range u.Parts {
		p := &u.Parts[k]
		i := slices.Index(s.readings, p.Of)
		if i < 0 || p.Of == nil {
			continue
		}
		r := s.ranges[i]
		if errors.Is(p.Err, kerr.OffsetOutOfRange) {
			return fmt.Errorf("read %s/%d at %d: the log does not have it any more: %w", r.Partition.Topic, r.Partition.Number, p.From, p.Err)
		}
		if p.Err != nil {
			if p.From == r.From {
				s.failed[i] = fmt.Errorf("read %[1]s/%[2]d at %[3]d: %[4]w; bring the log back, or let a replica that is whole lead; "+
					"to leave out what cannot be read, plan from behind it on (--from-offset %[1]s/%[2]d=OFFSET)", r.Partition.Topic, r.Partition.Number, p.From, p.Err)
			}
			continue
		}
		s.failed[i] = nil
		n := len(p.Records)
		for n > 0 && p.Records[n-1].Offset >= r.To {
			n--
		}
		next := min(p.Next.Offset, r.To)
		if next == r.To {
			s.readings[i] = nil
			s.left--
		}
		if err := s.each(i, p.Records[:n], next); err != nil {
			return err
		}
	}
	return nil
}
