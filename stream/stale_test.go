package stream

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/stream/ledger"
)

// What was polled for a claim that has ended never reaches its successor, which here has to start lower: otherwise the
// records in between were skipped for good.
func TestStaleRecordsAreDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.Produce(0, 0, 1, 2, 3, 4, 5)
	m := newMemory()
	failed := false
	polled := make(chan struct{})
	m.onApply = func(_ context.Context, b []ledger.Slice) error {
		if len(b[0].Records) > 0 && b[0].Records[0].Offset == 3 && !failed {
			failed = true
			<-polled // the record behind it is on its way to the loop
			m.take(0, 1)
			return errors.New("connection lost; the database came back from a backup")
		}
		return nil
	}
	cfg := r.config(m, newLanes())
	cfg.BatchRecords = 1
	cfg.MirrorInterval = patience // or the mirror would tell that the ledger lost history
	cfg.Client = append(cfg.Client, kgo.WithHooks(onPolled{4, polled}))
	run := r.start(cfg)
	m.until(t, "all read", func() bool { return m.next(0) == 6 })
	run.stop(t)
	want := []string{"0/0 e0", "0/1 e1", "0/2 e2", "0/1 e1", "0/2 e2", "0/3 e3", "0/4 e4", "0/5 e5"}
	if !slices.Equal(m.lines, want) {
		t.Errorf("got  %q\nwant %q", m.lines, want)
	}
	m.check(t)
}

// onPolled closes a channel when the record at an offset is polled for the first time.
type onPolled struct {
	offset int64
	polled chan struct{}
}

func (h onPolled) OnFetchRecordUnbuffered(r *kgo.Record, polled bool) {
	if !polled || r.Offset != h.offset {
		return
	}
	select {
	case <-h.polled:
	default:
		close(h.polled)
	}
}
