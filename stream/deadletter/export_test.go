package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// graves is a ledger with dead letters of one claim, by lane_seq.
type graves struct {
	dead     []int64
	exported map[int64]bool
	of       string // the subscription
}

func (s *graves) Unexported(ctx context.Context, _ []*ledger.Claim, limit int) (list []ledger.DeadLetter, err error) {
	for _, seq := range s.dead {
		if !s.exported[seq] && len(list) < limit {
			d := ledger.DeadLetter{LaneSeq: seq}
			d.Team, d.Subscription, d.Entity = "acme", s.of, schemas.EntityKey(fmt.Sprint(seq))
			list = append(list, d)
		}
	}
	return list, ctx.Err()
}

func (s *graves) Exported(ctx context.Context, _ []*ledger.Claim, list []ledger.DeadLetter) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, d := range list {
		if !slices.Contains(s.dead, d.LaneSeq) || s.exported[d.LaneSeq] {
			return fmt.Errorf("dead letter %d is not one that is to be exported", d.LaneSeq)
		}
		s.exported[d.LaneSeq] = true
	}
	return nil
}

func (s *graves) DeadPayload(context.Context, ledger.DeadLetter) ([]byte, ledger.Pointer, error) {
	return nil, ledger.Pointer{}, errors.New("what is written here has no payload")
}

// However slow the log and the brokers are, what was written is noted and written once.
func TestSlowExportComesToItsEnd(t *testing.T) {
	t.Parallel()
	for _, each := range []time.Duration{time.Millisecond, time.Second, exportTimeout - time.Millisecond, exportTimeout, 3 * exportTimeout} {
		t.Run(each.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ms, err := NewMetrics(nil)
				if err != nil {
					t.Fatal(err)
				}
				s := &graves{exported: map[int64]bool{}}
				for seq := range int64(exportGroupSize + 10) {
					s.dead = append(s.dead, seq)
				}
				times := map[int64]int{}
				x := New(Config{Ledger: s, Metrics: ms})
				x.write = func(_ context.Context, d *ledger.DeadLetter) written { // as the client does with what is on its way
					time.Sleep(each)
					times[d.LaneSeq]++
					return func() error { return nil }
				}
				rounds := 0
				for more := true; more; rounds++ {
					if more, err = x.exportGroup(t.Context(), []*ledger.Claim{{ID: 1}}); err != nil || rounds > len(s.dead) {
						t.Fatalf("round %d: %v", rounds, err)
					}
				}
				for _, seq := range s.dead {
					if times[seq] != 1 || !s.exported[seq] {
						t.Errorf("%d was written %d times, noted %v", seq, times[seq], s.exported[seq])
					}
				}
			})
		})
	}
}

// What the brokers have confirmed is noted even if the process is stopping by then: it is not written again.
func TestStopNotesWhatIsWritten(t *testing.T) {
	t.Parallel()
	ms, err := NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &graves{exported: map[int64]bool{}, dead: []int64{1, 2}}
	x := New(Config{Ledger: s, Metrics: ms})
	ctx, stop := context.WithCancel(t.Context())
	x.write = func(context.Context, *ledger.DeadLetter) written {
		return func() error { stop(); return nil }
	}
	if _, err := x.exportGroup(ctx, []*ledger.Claim{{ID: 1}}); err != nil || len(s.exported) != 2 {
		t.Errorf("%d are noted as exported, want 2: %v", len(s.exported), err)
	}
}

// A dead letter that cannot be written is tried again later and later, and holds up no other, however many there are. Once brokers that were
// away for an hour are back, all is exported within minutes.
func TestUnreadableDeadLettersHoldUpNone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		broken  int64 // the first so many cannot be read
		awayFor time.Duration
	}{"one": {broken: 1}, "a batch of them": {broken: exportGroupSize + 80}, "brokers away": {awayFor: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ms, err := NewMetrics(nil)
				if err != nil {
					t.Fatal(err)
				}
				s := &graves{exported: map[int64]bool{}}
				for seq := range 300 + tt.broken {
					s.dead = append(s.dead, seq)
				}
				x := New(Config{Subscription: "a.b", Ledger: s, Metrics: ms, Sweep: time.Second, Logger: slog.New(slog.DiscardHandler)})
				began, tries := time.Now(), map[int64]int{}
				x.write = func(_ context.Context, d *ledger.DeadLetter) written {
					tries[d.LaneSeq]++
					if d.LaneSeq < tt.broken || time.Since(began) < tt.awayFor {
						return func() error { return errors.New("its bytes cannot be read") }
					}
					return func() error { return nil }
				}
				ctx, cancel := context.WithTimeout(t.Context(), tt.awayFor+10*time.Minute)
				defer cancel()
				x.Run(ctx, func() []*ledger.Claim { return []*ledger.Claim{{ID: 1}} })
				if len(s.exported) != 300 {
					t.Errorf("%d are exported, want 300", len(s.exported))
				}
				if tt.broken > 0 && (tries[0] < 5 || tries[0] > 100) {
					t.Errorf("the first was tried %d times in ten minutes", tries[0])
				}
			})
		})
	}
}
