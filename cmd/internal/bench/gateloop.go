package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
)

// gateLoop is one serial loop over a partition, as stream's is.
type gateLoop struct {
	cfg     gateRun
	ns      *ledger.Namespace
	lanes   *lane.Lanes
	bodies  *bodies
	selects selectFunc
	number  int32 // of the partition
	events  *generator
	claim   *ledger.Claim // nil before prepare
	// records are used again by the next batch: the ledger keeps none of them.
	records []ledger.Record
	decided int64 // events
	actions int64 // of those
	warmed  int64 // actions before those
}

// selectFunc is a subscription's match and second key; nil takes everything, without keys.
type selectFunc func(*schemas.Event) (bool, gate.Also, error)

func newGateLoop(g gateRun, ns *ledger.Namespace, lanes *lane.Lanes, body *bodies, selects selectFunc, names []string, n int) *gateLoop {
	return &gateLoop{cfg: g, ns: ns, lanes: lanes, bodies: body, selects: selects, number: int32(n), events: newGenerator(int32(n), names, g.seed)}
}

// prepare claims the partition, applies one event of each entity and warms up.
func (l *gateLoop) prepare(ctx context.Context) (err error) {
	if l.claim, err = l.ns.Claim(ctx, l.cfg.claimFrom(l.number, goOn)); err != nil {
		return err
	}
	l.events.continueAt(l.claim.Next.Offset, l.claim.Epoch<<32)
	if err := l.lanes.Open(ctx, l.claim); err != nil {
		return err
	}
	for left := l.cfg.entities; left > 0; left -= gateBatch {
		if err := l.apply(ctx, min(left, gateBatch), l.events.firstEvent); err != nil {
			return err
		}
	}
	for l.actions = 0; l.actions < int64(l.cfg.warmUp); {
		if err := l.apply(ctx, gateBatch, l.events.next); err != nil {
			return err
		}
	}
	l.warmed, l.actions = l.actions, 0
	return l.waitDrained(ctx)
}

// run applies full batches for the run's length, one after the other, then waits until the last action is done.
func (l *gateLoop) run(ctx context.Context) error {
	for begin := time.Now(); time.Since(begin) < l.cfg.length; {
		if err := l.apply(ctx, gateBatch, l.events.next); err != nil {
			return err
		}
		l.decided += gateBatch
	}
	return l.waitDrained(ctx)
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

// apply commits a batch of n events and hands its actions to the lanes.
func (l *gateLoop) apply(ctx context.Context, n int, next func() event) error {
	l.records = slices.Grow(l.records[:0], n)[:n]
	events, now := make([]schemas.Event, n), time.Now()
	for i := range n {
		l.records[i], events[i] = recordOf(next(), now)
		events[i].Data = l.bodies.sample
		if l.selects != nil {
			matches, also, err := l.selects(&events[i])
			if err != nil || !matches {
				return fmt.Errorf("an event of the bench is not matched: %w", err)
			}
			l.records[i].Also = also
		}
	}
	applied, err := l.ns.Apply(ctx, []ledger.Slice{{Claim: l.claim, From: l.claim.Next.Offset, Records: l.records, Next: ledger.Position{Offset: l.records[n-1].Offset + 1}}})
	if err != nil {
		return err
	}
	a := applied[0]
	if a.Fenced || a.Refused != nil || len(a.Quarantined) > 0 {
		return fmt.Errorf("a batch of the bench came back fenced, refused or quarantined: %+v %w", a.Quarantined, a.Refused)
	}
	items := make([]lane.Item, len(a.Actions))
	for i := range a.Actions {
		e := &events[a.Actions[i].Record]
		e.Data = l.bodies.clone()
		items[i] = lane.Item{Action: &a.Actions[i], Event: e}
	}
	l.lanes.Add(a.Claim, items)
	l.actions += int64(len(items))
	return nil
}

// waitDrained waits until the ledger has no open action of the loop's claim.
func (l *gateLoop) waitDrained(ctx context.Context) error {
	for {
		open, _, err := l.ns.Open(ctx, l.claim, 0, 1)
		if err != nil || len(open) == 0 {
			return err
		}
		if open[0].Status == ledger.Dead {
			return fmt.Errorf("an action of the bench died: %+v", open[0])
		}
		if err := waitUntil(ctx, time.Now().Add(2*time.Millisecond)); err != nil {
			return err
		}
	}
}

// close drains the lanes and releases the claim, so that the next run's claim is clean.
func (l *gateLoop) close(ctx context.Context) error {
	if err := l.lanes.Close(ctx, l.claim); err != nil {
		return err
	}
	return l.ns.Release(ctx, l.claim)
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
