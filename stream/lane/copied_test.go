package lane

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// The log forgets a payload that the owner's sweep has copied since the action was loaded: the copy is found, also where
// the ledger does not answer at first.
func TestCopyMadeAfterLoading(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		packed := jsonCodec.Pack(&schemas.Event{ID: "a#1", Entity: "a", Data: []byte("{}")})
		item := r.make("a", nil)
		item.Event = nil
		clear(r.log.events)
		r.log.fail = func(ledger.Pointer) error {
			if r.log.loads > 1 {
				return nil
			}
			copied := *item.Action
			copied.Packed, copied.HasCopy = packed, true
			r.mem.put(copied)
			r.mem.mu.Lock()
			defer r.mem.mu.Unlock()
			r.mem.onOpen = func(int64, int) error {
				r.mem.onOpen = nil
				return errors.New("the ledger is away")
			}
			return nil
		}
		r.Add(r.claim, []Item{item})
		synctest.Wait()
		same(t, "calls while the ledger is away", len(r.sink.ids()), 0)
		time.Sleep(time.Minute)
		same(t, "calls", r.sink.ids(), []string{"a#1"})
		same(t, "status", r.mem.status(r.claim, 1), ledger.Done)
	})
}
