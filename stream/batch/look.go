package batch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lookState is what is known of a partition's reading without the reader. The client keeps every error of a fetch to itself that it tries
// again, for ever if need be: a broker's disk, a partition without a leader, a broker that does not answer. So the loop looks itself:
//
//	moved since the last look, or paused ──▶ read on
//	at the end                           ──▶ all is read
//	at the stable end                    ──▶ it cannot: a transaction of another writer is open
//	the leader gives the offset          ──▶ it can be read: what is held back is held back here
//	otherwise                            ──▶ it cannot; after UnreadAfter of such looks in a row the run ends
//
// The last question is what tells a failure from a full batch, a slow ledger, or a catch-up of other partitions.
type lookState struct {
	next  int64     // the position at the last look
	since time.Time // when the first of the looks in a row found that it cannot be read; zero: the last one did not
}

// watchReading looks every TopicLook at the partitions that have not moved since.
func (l *Loop) watchReading() {
	tick := time.NewTicker(l.cfg.TopicLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.lookAtReading()
		case <-l.ctx.Done():
			return
		}
	}
}

// endsTimeout bounds the question for the ends of all partitions. Where a broker does not answer it, each partition is asked for alone.
const endsTimeout = 3 * time.Second

// lookAtReading asks the brokers, for each partition whose position has not moved since the last look, whether it can be read. One that is at its
// end is not asked for, and counts as readable.
func (l *Loop) lookAtReading() {
	still := l.still()
	if len(still) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, endsTimeout)
	ends := l.cfg.Log.Ends(ctx, l.cfg.Topics...)
	cancel()
	var asking sync.WaitGroup
	var mu sync.Mutex
	errs := map[*Partition]error{} // why a partition cannot be read; nil or missing: it can
	for p, next := range still {
		if end, known := ends[p.at()]; known && next >= end {
			continue
		}
		asking.Go(func() {
			err := l.askReadable(p, next)
			mu.Lock()
			defer mu.Unlock()
			errs[p] = err
		})
	}
	asking.Wait()
	// All in one call: a loop with a backlog takes one call between two batches, and a call for each partition would wait long.
	l.do(l.ctx, func() {
		for p, next := range still {
			l.looked(p, next, errs[p])
		}
	})
}

// still returns the partitions that have not moved since the last look, with their positions.
func (l *Loop) still() map[*Partition]int64 {
	still := map[*Partition]int64{}
	l.do(l.ctx, func() {
		for _, p := range l.claims {
			next := p.next.Offset
			if p.LanesOnly || l.paused.Load() || next != p.look.next {
				p.look = lookState{next: next}
				continue
			}
			still[p] = next
		}
	})
	return still
}

// ErrOpenTransaction is why records that the log has cannot be read yet. Nothing of ours writes in transactions.
var ErrOpenTransaction = errors.New("a transaction of another writer is open there, and what is behind it waits for its end")

// askReadable returns nil if there is nothing to read from next on, or the brokers give it. The stable end is asked for after the end: where it is
// lower, a transaction was open then.
func (l *Loop) askReadable(p *Partition, next int64) error {
	ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
	defer cancel()
	end, err := l.cfg.Log.End(ctx, p.at())
	if err != nil || next >= end {
		return err
	}
	if end, err = l.cfg.Log.StableEnd(ctx, p.at()); err != nil {
		return err
	}
	if next >= end {
		return ErrOpenTransaction
	}
	return l.cfg.Log.Readable(ctx, p.Claim.Partition, next)
}

// looked notes what a look has found, unless the partition has moved meanwhile.
func (l *Loop) looked(p *Partition, next int64, err error) {
	switch {
	case p.gone || p.next.Offset != next || l.paused.Load() || l.ctx.Err() != nil:
	case err == nil:
		p.look.since = time.Time{}
	default:
		if p.look.since.IsZero() {
			p.look.since = time.Now()
		}
		l.unread(p, &UnreadableError{Offset: next, Since: p.look.since, AtBroker: true, Err: err})
	}
}
