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

// database is the ledger in memory, and what breaks it.
type database struct {
	*ledgertest.Memory

	mu     sync.Mutex
	next   int
	broken map[int]ledgertest.Hook
}

func newDatabase() *database {
	d := &database{Memory: ledgertest.New(group, 0), broken: map[int]ledgertest.Hook{}}
	d.SetHook(d.ask)
	return d
}

// breaks adds what breaks the ledger until mend.
func (d *database) breaks(h ledgertest.Hook) (mend func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	id := d.next
	d.broken[id] = h
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.broken, id)
	}
}

// ask asks all that breaks the ledger now, in the order in which it came.
func (d *database) ask(ctx context.Context, c ledgertest.Call) error {
	d.mu.Lock()
	var hooks []ledgertest.Hook
	for _, id := range slices.Sorted(maps.Keys(d.broken)) {
		hooks = append(hooks, d.broken[id])
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
