package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
	"github.com/forebay-io/forebay/stream/owner"
)

// database is the ledger in memory, with the faults that it has now.
type database struct {
	*ledgertest.Memory

	mu     sync.Mutex
	next   int
	faults map[int]ledgertest.Hook
}

func newDatabase() *database {
	d := &database{Memory: ledgertest.New(group, 0), faults: map[int]ledgertest.Hook{}}
	d.SetHook(d.runFaults)
	return d
}

// addFault adds a fault, which the ledger has until mend is called.
func (d *database) addFault(h ledgertest.Hook) (mend func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	id := d.next
	d.faults[id] = h
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.faults, id)
	}
}

// runFaults runs the faults, oldest first, until one fails the call.
func (d *database) runFaults(ctx context.Context, c ledgertest.Call) error {
	d.mu.Lock()
	var hooks []ledgertest.Hook
	for _, id := range slices.Sorted(maps.Keys(d.faults)) {
		hooks = append(hooks, d.faults[id])
	}
	d.mu.Unlock()
	for _, h := range hooks {
		if err := h(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) process(node string, spec ledger.Spec) (ledgerHandle, error) {
	spec.Owner = node
	return d.Process(node, spec)
}

// accept is an operator's word about what a partition has reported.
func (d *database) accept(ctx context.Context, part owner.PartitionState) error {
	why, ok := errors.AsType[*owner.StopError](part.Err)
	if !ok || why.Stop.ID == 0 {
		return nil // not stored yet
	}
	filter := ledger.StopFilter{Subscription: group, Topic: part.Topic, Partition: &part.Partition}
	if why.Reason == owner.StopRecreated {
		filter.Partition = nil
	}
	_, err := d.Accept(ctx, filter, ledger.Acceptance{By: "operator", Reason: "seen"}, false)
	return err
}
