package stream

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
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
			if hears {
				answers = nil // nobody would tell again
			}
			lanes.onCommand = func(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (outcome string, err error) {
				if len(answers) == 0 {
					o, err := n.ObeyLane(ctx, c, cmd)
					tries <- o.Outcome
					return o.Outcome, err
				}
				tries <- answers[0]
				if answers[0] == "cannot" {
					err = schemas.Errorf(schemas.Unavailable, "obey", "just now")
				}
				answers = answers[1:]
				return "", err
			}
			want := append(slices.Clone(answers), "runs again")
			cfg := r.config(n, lanes)
			if hears {
				cfg.CommandSweep = time.Hour
			} else {
				cfg.Ledger = deaf{n}
			}
			r.start(cfg)
			r.produce(0, 1)
			lanes.until(t, "the action", func() bool { return len(lanes.items) == 1 })
			mu.Lock()
			c := claim
			mu.Unlock()
			id := schemas.NewActionID(testGroup, 0, "/acme/orders", "e1", "run")
			if _, err := n.Record(t.Context(), []ledger.Result{{Claim: c, LaneSeq: 1, ID: id, Status: ledger.Dead, Attempt: 1, Class: "rejected"}}); err != nil {
				t.Fatal(err)
			}
			command, err := inbox.New(l).AskAction(t.Context(), id, ledger.Again, ledger.CommandDetail{}, "jo", "mended")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for i := range want {
				select {
				case got := <-tries:
					if got != want[i] {
						t.Errorf("try %d: %q, want %q", i, got, want[i])
					}
				case <-time.After(patience):
					t.Fatalf("try %d never came", i)
				}
				if i == 0 && time.Since(began) > time.Second {
					t.Errorf("it took %s", time.Since(began))
				}
			}
			select {
			case again := <-tries:
				t.Errorf("obeyed again: %q", again)
			case <-time.After(50 * time.Millisecond):
			}
			for s, err := inbox.New(l).CommandStatus(t.Context(), command); ; s, err = inbox.New(l).CommandStatus(t.Context(), command) {
				if err != nil {
					t.Fatal(err)
				}
				if s.EndedAt != nil {
					break
				}
			}
		})
	}
}

// pile is a ledger that keeps commands.
type pile struct {
	CommandLedger
	open []ledger.Command
}

func (q *pile) Commands(_ context.Context, _ []*ledger.Claim, after int64) (page []ledger.Command, err error) {
	for _, c := range q.open {
		if c.ID > after && len(page) < ledger.MaxCommands {
			page = append(page, c)
		}
	}
	return page, nil
}

// Commands that have to wait, however many they are, do not hold up one that was asked after them.
func TestCommandsThatWaitHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	q := &pile{}
	for id := range int64(2*ledger.MaxCommands + 1) {
		q.open = append(q.open, ledger.Command{ID: id + 1, Claim: 7, LaneSeq: id + 1})
	}
	var obeyed []int64
	claim, lanes := &ledger.Claim{ID: 7}, newLanes()
	lanes.open[claim] = true
	lanes.onCommand = func(_ context.Context, _ *ledger.Claim, cmd ledger.Command) (string, error) {
		if cmd.ID <= 2*ledger.MaxCommands {
			return "", nil
		}
		obeyed = append(obeyed, cmd.ID)
		return "runs again", nil
	}
	l := &loop{ctx: t.Context(), cfg: Config{Lanes: lanes}, log: slog.New(slog.DiscardHandler), calls: make(chan func()),
		claims: map[topicPartition]*owned{{topic: testTopic}: {claim: claim}}}
	go func() { (<-l.calls)() }() // which claims there are
	l.obeyAll(q)
	if want := []int64{2*ledger.MaxCommands + 1}; !slices.Equal(obeyed, want) {
		t.Errorf("obeyed %d, want %d", obeyed, want)
	}
}
