package stream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// fetcher reads claimed partitions from exact offsets and hands them over decoded, while the loop commits the batch
// before. It has a client of its own that knows nothing of the group, so that positions only ever come from the ledger:
// no reset policy, no committed offset, no rebalance can move it.
//
// Every claim is read under its own [intake]: what was polled for a claim that has ended is told from what belongs to
// its successor, which may have to start lower. Partitions are therefore added, removed and polled by one goroutine,
// and a poll is labelled before the next change: removing a partition drops what kgo has buffered for it.
type fetcher struct {
	cl      *kgo.Client
	filter  func(eventType, source string) bool
	records int
	bytes   int
	onError func(err error) // about no claimed partition

	out     chan unit   // unbuffered: at most one decoded poll waits for the loop. Never closed
	cmds    chan func() // never closed
	waiting atomic.Int32
	wake    atomic.Pointer[context.CancelFunc]

	intakes map[topicPartition]*intake // owned by run
}

type topicPartition struct {
	topic  string
	number int32
}

// intake is one claim's reading of its partition.
type intake struct {
	at   topicPartition
	next int64 // what was read up to; owned by the fetcher
	own  *owned
}

// part is what one poll brought of one partition.
type part struct {
	own     *owned
	records []ledger.Record
	events  []*schemas.Event // nil where undecodable; as long as records
	next    ledger.Position
	bytes   int
	end     int64 // of the log for readers of committed records, as of the poll
	err     error // reading stands still: nothing else is set
}

// unit is what fits a batch.
type unit struct {
	parts   []part
	records int
	bytes   int
}

func newFetcher(cl *kgo.Client, cfg Config, onError func(error)) *fetcher {
	return &fetcher{
		cl: cl, filter: cfg.Filter, records: cfg.BatchRecords, bytes: cfg.BatchBytes, onError: onError,
		out: make(chan unit), cmds: make(chan func()), intakes: map[topicPartition]*intake{},
	}
}

// fetchOptions make a client that reads committed records from where it is told and never moves by itself. Control
// records are kept and dropped here, because they are what carries a position over the end of a transaction: without
// them a partition that ends in an aborted batch would never be read to its end.
func fetchOptions(cfg Config) []kgo.Opt {
	maxRead := int32(cfg.MaxRecordBytes)
	return append(append([]kgo.Opt{}, cfg.Client...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(int32(cfg.BatchBytes)),
		kgo.FetchMaxPartitionBytes(min(int32(cfg.BatchBytes), 4<<20)), // a larger record still comes, alone (KIP-74)
		kgo.BrokerMaxReadBytes(max(maxRead+1<<20, 100<<20)),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.FetchMaxWait(500*time.Millisecond), // a new claim waits for the long poll that is under way at its broker
	)
}

// do runs fn between two polls and returns when it has run, or when ctx is done.
func (f *fetcher) do(ctx context.Context, fn func()) {
	f.waiting.Add(1)
	if c := f.wake.Load(); c != nil {
		(*c)()
	}
	ran := make(chan struct{})
	select {
	case f.cmds <- func() { fn(); close(ran) }:
		<-ran
	case <-ctx.Done():
		f.waiting.Add(-1)
	}
}

func (f *fetcher) add(ctx context.Context, o *owned) {
	f.do(ctx, func() {
		at := o.at
		f.remove(at)
		f.intakes[at] = &intake{at: at, next: o.next.Offset, own: o}
		// With the epoch, kgo checks for truncation before it reads, and again whenever the leader changes.
		offset := kgo.NewOffset().At(o.next.Offset)
		if o.next.LeaderEpoch >= 0 {
			offset = offset.WithEpoch(o.next.LeaderEpoch)
		}
		f.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{at.topic: {at.number: offset}})
	})
}

func (f *fetcher) drop(ctx context.Context, o *owned) {
	f.do(ctx, func() {
		if in := f.intakes[o.at]; in != nil && in.own == o {
			f.remove(o.at)
		}
	})
}

func (f *fetcher) remove(at topicPartition) {
	if f.intakes[at] == nil {
		return
	}
	delete(f.intakes, at)
	f.cl.RemoveConsumePartitions(map[string][]int32{at.topic: {at.number}})
}

func (f *fetcher) command(fn func()) {
	f.waiting.Add(-1)
	fn()
}

// run polls until ctx is done.
func (f *fetcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := f.poll(ctx)
		for _, u := range f.units(fetches) {
			if !f.hand(ctx, u) {
				return
			}
		}
		if fetches.NumRecords() == 0 && fetches.Err() != nil && !errors.Is(fetches.Err(), context.Canceled) {
			f.pause(ctx)
		}
	}
}

// pause keeps an error that comes back at once from spinning.
func (f *fetcher) pause(ctx context.Context) {
	timer := time.NewTimer(200 * time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case fn := <-f.cmds:
			f.command(fn)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hand gives a unit to the loop, and goes on taking commands while the loop is busy: the loop gives some of them.
func (f *fetcher) hand(ctx context.Context, u unit) bool {
	for {
		select {
		case f.out <- u:
			return true
		case fn := <-f.cmds:
			f.command(fn)
		case <-ctx.Done():
			return false
		}
	}
}

func (f *fetcher) poll(ctx context.Context) kgo.Fetches {
	pctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.wake.Store(&cancel)
	for f.waiting.Load() > 0 || len(f.intakes) == 0 {
		select {
		case fn := <-f.cmds:
			f.command(fn)
		case <-ctx.Done():
			return nil
		}
	}
	if pctx.Err() != nil {
		return nil // woken for a command that has run by now
	}
	return f.cl.PollRecords(pctx, f.records)
}

// units cuts a poll into what fits a batch each, in order. A record that is larger than a batch comes alone.
func (f *fetcher) units(fetches kgo.Fetches) []unit {
	var units []unit
	var u unit
	fetches.EachPartition(func(tp kgo.FetchTopicPartition) {
		in := f.intakes[topicPartition{tp.Topic, tp.Partition}]
		if in == nil { // an error about the client, or a partition given up
			if tp.Err != nil && !errors.Is(tp.Err, context.Canceled) {
				f.onError(tp.Err)
			}
			return
		}
		if failed(fetches, tp.Topic, tp.Partition) != nil {
			if tp.Err != nil { // records beside an error are not trusted: they may lie behind a truncation
				u.parts = append(u.parts, part{own: in.own, err: tp.Err})
			}
			return
		}
		if tp.LogStartOffset > in.next { // kgo moves an offset into the log where it had to look the partition up first
			u.parts = append(u.parts, part{own: in.own, err: kerr.OffsetOutOfRange})
			return
		}
		var p *part
		for _, r := range tp.Records {
			if r.Offset < in.next {
				continue
			}
			in.next = r.Offset + 1
			size := weight(r)
			if u.records >= f.records || u.records > 0 && u.bytes+size > f.bytes {
				units, u, p = append(units, u), unit{}, nil
			}
			if p == nil {
				u.parts = append(u.parts, part{own: in.own})
				p = &u.parts[len(u.parts)-1]
			}
			p.end = max(tp.LastStableOffset, r.Offset+1)
			p.next = ledger.Position{Offset: r.Offset + 1, LeaderEpoch: r.LeaderEpoch}
			if r.Attrs.IsControl() {
				continue
			}
			rec, event := decode(r, f.filter)
			p.records, p.events = append(p.records, rec), append(p.events, event)
			u.records++
			u.bytes += size
			p.bytes += size
		}
	})
	if len(u.parts) > 0 {
		units = append(units, u)
	}
	return units
}

// failed is the error of a partition in a poll. kgo's notes about lost data come as fetches of their own, after those
// with records.
func failed(fetches kgo.Fetches, topic string, number int32) (err error) {
	for _, f := range fetches {
		for i := range f.Topics {
			if f.Topics[i].Topic != topic {
				continue
			}
			for j := range f.Topics[i].Partitions {
				if p := &f.Topics[i].Partitions[j]; p.Partition == number && p.Err != nil {
					err = p.Err
				}
			}
		}
	}
	return err
}

// mustRecheck reports whether an error means that the position and the log may not fit each other any more: then the
// partition is claimed anew, and the claim's own questions say what is wrong. Other errors kgo gets over by itself.
func mustRecheck(err error) bool {
	if _, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		return true
	}
	return errors.Is(err, kerr.OffsetOutOfRange) || errors.Is(err, kerr.UnknownTopicID) ||
		errors.Is(err, kerr.UnknownTopicOrPartition)
}

func weight(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
