package batch

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/forebay-io/forebay/stream/internal/streamtest"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// pile is a ledger that keeps commands.
type pile struct {
	Ledger
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

// commanded are lanes that are only asked to do what commands say.
type commanded func(cmd ledger.Command) (string, error)

func (commanded) Add(*ledger.Claim, []lane.Item) {}
func (commanded) Full(*ledger.Claim) bool        { return false }
func (f commanded) ApplyCommand(_ context.Context, _ *ledger.Claim, cmd ledger.Command) (string, error) {
	return f(cmd)
}

// Commands that have to wait, however many they are, do not hold up one that was asked after them.
func TestCommandsThatWaitHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	q := &pile{}
	for id := range int64(2*ledger.MaxCommands + 1) {
		q.open = append(q.open, ledger.Command{ID: id + 1, Claim: 7, LaneSeq: id + 1})
	}
	var applied []int64
	claim := &ledger.Claim{ID: 7, Partition: ledger.Partition{Topic: streamtest.Topic}}
	lanes := commanded(func(cmd ledger.Command) (string, error) {
		if cmd.ID <= 2*ledger.MaxCommands {
			return "", nil
		}
		applied = append(applied, cmd.ID)
		return "runs again", nil
	})
	p := NewPartition(claim, 1)
	l := &Loop{ctx: t.Context(), cfg: Config{Lanes: lanes, Ledger: q}, log: slog.New(slog.DiscardHandler), calls: make(chan func()),
		claims: map[reader.TopicPartition]*Partition{p.at(): p}}
	go func() { (<-l.calls)() }() // which claims there are
	l.applyCommands()
	if want := []int64{2*ledger.MaxCommands + 1}; !slices.Equal(applied, want) {
		t.Errorf("applied %d, want %d", applied, want)
	}
}
