package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
)

// gateLoop is one serial loop over the partitions that it owns, as stream's is: a batch has a slice of each partition
// that has something.
type gateLoop struct {
	cfg     gateRun
	ns      *ledger.Namespace
	lanes   *lane.Lanes
	bodies  *bodies
	parts   []*gatePart
	rng     *rand.Rand
	decided int64 // events
	actions int64 // of those
	warmed  int64 // actions before those
	batches []time.Duration
}

// gatePart is a partition of a loop.
type gatePart struct {
	number int32
	events *generator
	claim  *ledger.Claim // nil before prepare
	// records are used again by the next batch: the ledger keeps none of them.
	records []ledger.Record
}

func newGateLoop(g gateRun, ns *ledger.Namespace, lanes *lane.Lanes, body *bodies, names []string, n int) *gateLoop {
	l := &gateLoop{cfg: g, ns: ns, lanes: lanes, bodies: body, rng: rand.New(rand.NewPCG(g.seed, uint64(n)))}
	for i := range g.partitions {
		number := int32(n*g.partitions + i)
		l.parts = append(l.parts, &gatePart{number: number, events: newGenerator(number, names, g.seed)})
	}
	return l
}

// prepare claims the partitions, applies one event of each entity and warms up.
func (l *gateLoop) prepare(ctx context.Context) error {
	for _, p := range l.parts {
		if err := l.claim(ctx, p); err != nil {
			return err
		}
	}
	counts := make([]int, len(l.parts))
	for left := l.cfg.entities; left > 0; left -= counts[0] {
		n := min(left, max(1, gateBatch/len(counts)))
		for i := range counts {
			counts[i] = n
		}
		if err := l.apply(ctx, l.take(counts, (*generator).firstEvent)); err != nil {
			return err
		}
	}
	for l.actions = 0; l.actions < int64(l.cfg.warmUp); {
		if err := l.apply(ctx, l.take(l.counts(gateBatch), (*generator).next)); err != nil {
			return err
		}
	}
	l.warmed, l.actions = l.actions, 0
	return l.waitDrained(ctx)
}

func (l *gateLoop) claim(ctx context.Context, p *gatePart) (err error) {
	p.claim, err = l.ns.Claim(ctx, l.cfg.claimFrom(p.number, goOn))
	if err != nil {
		return err
	}
	p.events.continueAt(p.claim.Next.Offset, p.claim.Epoch<<32)
	return l.lanes.Open(ctx, p.claim)
}

// run applies batches for the run's length, then waits until the last action is done.
func (l *gateLoop) run(ctx context.Context) error {
	work := l.applyFull
	if l.cfg.rate > 0 {
		work = l.applyAtRate
	}
	if err := work(ctx, l.cfg.length); err != nil {
		return err
	}
	return l.waitDrained(ctx)
}

// applyFull applies full batches, one after the other.
func (l *gateLoop) applyFull(ctx context.Context, d time.Duration) error {
	for begin := time.Now(); time.Since(begin) < d; {
		if err := l.applyRandom(ctx, gateBatch, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// applyAtRate applies events that arrive at the run's rate: a batch has what has arrived since the last one, and waits gateWait for more.
func (l *gateLoop) applyAtRate(ctx context.Context, d time.Duration) error {
	apart := time.Second / time.Duration(l.cfg.rate)
	begin := time.Now()
	for first := begin; first.Sub(begin) < d; {
		if err := waitUntil(ctx, first.Add(gateWait)); err != nil {
			return err
		}
		n := min(gateBatch, 1+int(time.Since(first)/apart))
		if err := l.applyRandom(ctx, n, first); err != nil {
			return err
		}
		first = first.Add(time.Duration(n) * apart)
	}
	return nil
}

// applyRandom applies n events of partitions at random. The batch's time counts from first, when the first of them arrived.
func (l *gateLoop) applyRandom(ctx context.Context, n int, first time.Time) error {
	if err := l.apply(ctx, l.take(l.counts(n), (*generator).next)); err != nil {
		return err
	}
	l.decided += int64(n)
	l.batches = append(l.batches, time.Since(first))
	return nil
}

// counts returns how many of n events each partition has, at random.
func (l *gateLoop) counts(n int) []int {
	counts := make([]int, len(l.parts))
	for range n {
		counts[l.rng.IntN(len(counts))]++
	}
	return counts
}

// gateEvents is a batch in the ledger's form, with the events that its actions carry, by slice.
type gateEvents struct {
	slices []ledger.Slice
	events [][]schemas.Event
}

// take makes a batch of counts[i] events of partition i.
func (l *gateLoop) take(counts []int, next func(*generator) event) gateEvents {
	var b gateEvents
	for i, n := range counts {
		if n == 0 {
			continue
		}
		p := l.parts[i]
		p.records = slices.Grow(p.records[:0], n)[:n]
		s := ledger.Slice{Claim: p.claim, From: p.claim.Next.Offset, Records: p.records}
		events := make([]schemas.Event, n)
		now := time.Now()
		for j := range n {
			s.Records[j], events[j] = recordOf(next(p.events), now)
		}
		s.Next = ledger.Position{Offset: s.Records[n-1].Offset + 1}
		b.slices, b.events = append(b.slices, s), append(b.events, events)
	}
	return b
}

func recordOf(e event, now time.Time) (ledger.Record, schemas.Event) {
	v := schemas.Version{Kind: schemas.Monotonic, Value: e.version}
	return ledger.Record{
			Record: gate.Record{
				Offset: e.offset, AppendTime: now, Key: e.key, Hash: e.hash, Entity: schemas.EntityKey(e.entity), Version: v, Payload: schemas.Snapshot,
			},
			Source: e.source, ID: e.id, Type: e.typ, ReceivedAt: now,
			Packed: func() []byte { return []byte{} },
		}, schemas.Event{
			ID: e.id, Source: e.source, Type: e.typ, Entity: schemas.EntityKey(e.entity), Version: v, Payload: schemas.Snapshot, Hash: e.hash,
		}
}

// apply commits a batch and hands its actions to the lanes.
func (l *gateLoop) apply(ctx context.Context, b gateEvents) error {
	applied, err := l.ns.Apply(ctx, b.slices)
	if err != nil {
		return err
	}
	for i := range applied {
		if applied[i].Fenced || applied[i].Refused != nil || len(applied[i].Quarantined) > 0 {
			return fmt.Errorf("a batch of the bench came back fenced, refused or quarantined: %+v %w", applied[i].Quarantined, applied[i].Refused)
		}
		items := make([]lane.Item, len(applied[i].Actions))
		for j := range applied[i].Actions {
			a := &applied[i].Actions[j]
			e := &b.events[i][a.Record]
			e.Data = l.bodies.clone()
			items[j] = lane.Item{Action: a, Event: e}
		}
		l.lanes.Add(applied[i].Claim, items)
		l.actions += int64(len(items))
	}
	return nil
}

// waitDrained waits until the ledger has no open action of the loop's claims.
func (l *gateLoop) waitDrained(ctx context.Context) error {
	for _, p := range l.parts {
		for {
			open, _, err := l.ns.Open(ctx, p.claim, 0, 1)
			if err != nil {
				return err
			}
			if len(open) == 0 {
				break
			}
			if open[0].Status == ledger.Dead {
				return fmt.Errorf("an action of the bench died: %+v", open[0])
			}
			if err := waitUntil(ctx, time.Now().Add(2*time.Millisecond)); err != nil {
				return err
			}
		}
	}
	return nil
}

// close drains the lanes and releases the claims, so that the next run's claims are clean.
func (l *gateLoop) close(ctx context.Context) error {
	for _, p := range l.parts {
		if err := l.lanes.Close(ctx, p.claim); err != nil {
			return err
		}
		if err := l.ns.Release(ctx, p.claim); err != nil {
			return err
		}
	}
	return nil
}

// waitUntil waits for a time, or for the end of ctx.
func waitUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
