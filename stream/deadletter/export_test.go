package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// graves is a ledger with dead letters of one claim, by lane_seq.
type graves struct {
	dead     []int64
	exported map[int64]bool
}

func (s *graves) Unexported(ctx context.Context, _ []*ledger.Claim, limit int) (list []ledger.DeadLetter, err error) {
	for _, seq := range s.dead {
		if !s.exported[seq] && len(list) < limit {
			list = append(list, ledger.DeadLetter{LaneSeq: seq})
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
				written := map[int64]int{}
				x := New(Config{Ledger: s, Metrics: ms})
				x.write = func(_ context.Context, d *ledger.DeadLetter) error { // as the client does with what is on its way
					time.Sleep(each)
					written[d.LaneSeq]++
					return nil
				}
				rounds := 0
				for more := true; more; rounds++ {
					if more, err = x.exportGroup(t.Context(), []*ledger.Claim{{ID: 1}}); err != nil || rounds > len(s.dead) {
						t.Fatalf("round %d: %v", rounds, err)
					}
				}
				for _, seq := range s.dead {
					if written[seq] != 1 || !s.exported[seq] {
						t.Errorf("%d was written %d times, noted %v", seq, written[seq], s.exported[seq])
					}
				}
			})
		})
	}
}
