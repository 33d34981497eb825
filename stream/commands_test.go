package stream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/ledger"
)

// deaf is a namespace that is told of nothing.
type deaf struct{ *ledger.Namespace }

func (deaf) Listen(func()) func() { return func() {} }

// A command about an action reaches the lanes of the partition's owner at once, through a NOTIFY, and where that is lost,
// by the owner's looking. What the lanes put off comes again; what they have done does not.
func TestCommandsReachTheLanes(t *testing.T) {
	t.Parallel()
	for _, hears := range []bool{true, false} {
		t.Run(fmt.Sprintf("hears=%v", hears), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 1)
			l, n := realLedger(t, arrival)
			lanes := newLanes()
			var mu sync.Mutex
			var claim *ledger.Claim
			lanes.opened = func(c *ledger.Claim) { mu.Lock(); defer mu.Unlock(); claim = c }
			tries := make(chan string, 10)
			answers := []string{"not now", "cannot"}
			lanes.onCommand = func(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (outcome string, err error) {
				if len(answers) == 0 {
					o, err := n.ApplyLaneCommand(ctx, c, cmd)
					tries <- o.Outcome
					return o.Outcome, err
				}
				tries <- answers[0]
				if answers[0] == "cannot" {
					err = schemas.Errorf(schemas.Unavailable, "command", "just now")
				}
				answers = answers[1:]
				return "", err
			}
			want := append(slices.Clone(answers), "runs again")
			cfg := r.config(n, lanes)
			if hears {
				cfg.CommandSweep = time.Hour // what is put off is asked for again all the same
			} else {
				cfg.Ledger, cfg.CommandSweep = deaf{n}, 500*time.Millisecond
			}
			r.start(cfg)
			r.Produce(0, 1)
			lanes.until(t, "the action", func() bool { return len(lanes.items) == 1 })
			mu.Lock()
			c := claim
			mu.Unlock()
			id := schemas.NewActionID(testGroup, 0, "/acme/orders", "e1", "run")
			if _, err := n.Record(t.Context(), []ledger.Result{{Claim: c, LaneSeq: 1, ID: id, Status: ledger.Dead, Attempt: 1, Class: "rejected"}}); err != nil {
				t.Fatal(err)
			}
			command, err := inbox.New(l).AskAction(t.Context(), id, ledger.Replay, ledger.CommandDetail{}, "jo", "mended")
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				select {
				case got := <-tries:
					if got != want[i] {
						t.Errorf("try %d: %q, want %q", i, got, want[i])
					}
				case <-time.After(patience):
					t.Fatalf("try %d never came", i)
				}
			}
			if !streamtest.Until(func() bool {
				s, err := inbox.New(l).CommandStatus(t.Context(), command)
				if err != nil {
					t.Fatal(err)
				}
				return s.EndedAt != nil
			}) {
				t.Error("the command never ends")
			}
			if len(tries) > 0 {
				t.Errorf("applied again: %q", <-tries)
			}
		})
	}
}
