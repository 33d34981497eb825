package batch

import (
	"context"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
)

// taker is Lanes that keep what they are given.
type taker struct {
	items []lane.Item
	full  func() bool // nil: never
}

func (k *taker) Add(_ *ledger.Claim, items []lane.Item) { k.items = append(k.items, items...) }
func (k *taker) ApplyCommand(context.Context, *ledger.Claim, ledger.Command) (string, error) {
	return "", nil
}
func (k *taker) Full(*ledger.Claim) bool { return k.full != nil && k.full() }

// What lanes hold for hours must not keep the fetch alive that it came with: an event of each of a thousand fetches would
// hold a thousand times their size.
func TestHandedEventsOwnTheirBytes(t *testing.T) {
	t.Parallel()
	fetched := []byte("firstsecond")
	events := []*schemas.Event{{ID: "1", Data: fetched[:5]}, {ID: "2", Data: fetched[5:]}}
	lanes := &taker{}
	l := &Loop{cfg: Config{Lanes: lanes}}
	l.handToLanes(NewPartition(&ledger.Claim{}, 1), ledger.Applied{Actions: []ledger.Action{{Record: 0}, {Record: 0}, {Record: 1}}}, events)
	clear(fetched)
	for i, want := range []string{"first", "first", "second"} {
		if got := string(lanes.items[i].Event.Data); got != want {
			t.Errorf("item %d has %q", i, got)
		}
	}
	if &lanes.items[0].Event.Data[0] != &lanes.items[1].Event.Data[0] {
		t.Error("two actions of one event hold two copies")
	}
}
