package simulation

import (
	"context"
	"errors"

	"github.com/forebay-io/forebay/stream"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
)

// database is the ledger in memory, and what breaks it.
type database struct{ *ledgertest.Memory }

func newDatabase() *database { return &database{ledgertest.New(group, 0)} }

func (d *database) process(node string, spec ledger.Spec) (ledgerHandle, error) {
	spec.Owner = node
	return d.Process(node, spec)
}

// accept is a person's word about what a partition has reported.
func (d *database) accept(ctx context.Context, part stream.PartitionState) error {
	why, ok := errors.AsType[*stream.StopError](part.Err)
	if !ok || why.Stop.ID == 0 {
		return nil // not stored yet
	}
	filter := ledger.StopFilter{Subscription: group, Topic: part.Topic, Partition: &part.Partition}
	if why.Reason == stream.StopRecreated {
		filter.Partition = nil
	}
	_, err := d.Accept(ctx, filter, ledger.Acceptance{By: "operator", Reason: "seen"}, false)
	return err
}
