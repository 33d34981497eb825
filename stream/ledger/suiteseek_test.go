package ledger_test

import (
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// askSeek asks that the partition of a claim goes on at an offset.
func (f *fixture) askSeek(c *ledger.Claim, offset int64) int64 {
	f.Helper()
	id, err := f.s.AskSeek(f.ctx(), c.ID, c.Partition.TopicID, offset, "jo", "the mapping was wrong")
	if err != nil {
		f.Fatal(err)
	}
	return id
}

// claimAsked claims partition 0 where a seek asks for.
func (f *fixture) claimAsked() (*ledger.Claim, error) {
	var pending *ledger.SeekRequest
	req := request(partition(0), func(_ context.Context, stored *ledger.Position) (ledger.Start, error) {
		if pending == nil {
			return ledger.Start{Position: *stored}, nil
		}
		return ledger.Start{Position: ledger.Position{Offset: pending.To, LeaderEpoch: -1}, Seek: &ledger.Seek{From: stored.Offset, To: pending.To}}, nil
	})
	req.Standing = func(s ledger.Standing) { pending = s.SeekRequest }
	return f.l.Claim(f.ctx(), req)
}

// seekOf returns what the owner of a claim is told of a seek that is asked for; nil if nothing is.
func (f *fixture) seekOf(c *ledger.Claim) *ledger.Command {
	f.Helper()
	for _, cmd := range f.commands(c) {
		if cmd.Kind == ledger.SeekTo {
			return &cmd
		}
	}
	return nil
}

var seeking = []property{
	{"a seek that is asked for is the owner's to see and a claim's to carry out, once", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 2), seq(2, "e", 3))
		notified := make(chan struct{}, 1)
		defer f.l.Listen(func() {
			select {
			case notified <- struct{}{}:
			default:
			}
		})()
		f.askSeek(c, 1)
		<-notified
		if cmd := f.seekOf(c); cmd == nil || cmd.Claim != c.ID || cmd.Offset != 1 || cmd.By != "jo" || cmd.Reason != "the mapping was wrong" {
			f.Errorf("the owner is sent %+v", cmd)
		}
		if outcome, _ := f.s.SeekOutcome(f.ctx(), c.ID); outcome != "" {
			f.Errorf("ended before a claim: %s", outcome)
		}
		next, err := f.claimAsked()
		if err != nil || next.Next.Offset != 1 || next.Seek == nil || *next.Seek != (ledger.Seek{From: 3, To: 1}) {
			f.Fatalf("%+v %v", next, err)
		}
		if outcome, from := f.s.SeekOutcome(f.ctx(), c.ID); outcome != "moved" || from != 3 {
			f.Errorf("outcome %q from %d", outcome, from)
		}
		if cmd := f.seekOf(next); cmd != nil {
			f.Errorf("it is still asked for: %+v", cmd)
		}
		if st, stored := f.standing(0); st.SeekRequest != nil || stored.Offset != 1 || st.High != 3 || !st.ProcessedAt.IsZero() {
			f.Errorf("the next claim finds %+v at %+v, of what is processed %d and %v", st.SeekRequest, stored, st.High, st.ProcessedAt)
		}
		next = f.claim(0)
		f.apply(next, seq(1, "e", 2))
		if st, _ := f.standing(0); !st.ProcessedAt.Equal(time.Unix(1_700_000_001, 0)) {
			f.Errorf("read again up to %v", st.ProcessedAt)
		}
	}},
	{"a claim that fails leaves the seek asked for, a later request replaces it", func(f *fixture) {
		c := f.claim(0)
		f.apply(c, seq(0, "e", 1), seq(1, "e", 2))
		f.askSeek(c, 0)
		unavailable := errors.New("the broker is away")
		if _, err := f.l.Claim(f.ctx(), request(partition(0), func(context.Context, *ledger.Position) (ledger.Start, error) { return ledger.Start{}, unavailable })); !errors.Is(err, unavailable) {
			f.Fatal(err)
		}
		later := f.askSeek(c, 1)
		if st, _ := f.standing(0); st.SeekRequest == nil || *st.SeekRequest != (ledger.SeekRequest{ID: later, To: 1, By: "jo", Reason: "the mapping was wrong"}) {
			f.Errorf("the seek request is %+v", st.SeekRequest)
		}
	}},
	{"a seek that was asked for in a topic that was created again since is refused in the new one", func(f *fixture) {
		old := f.claim(0)
		f.apply(old, seq(0, "e", 1), seq(1, "e", 2))
		f.askSeek(old, 1)
		second := partition(0)
		second.TopicID = ledger.TopicID{2}
		f.report(ledger.Stop{Partition: second, Kind: recreated, From: 2, Records: -1}, 0)
		f.accept()
		var pending *ledger.SeekRequest
		req := request(second, where)
		req.Standing = func(s ledger.Standing) { pending = s.SeekRequest }
		c, err := f.l.Claim(f.ctx(), req)
		if err != nil || c.Next.Offset != 0 || pending != nil {
			f.Fatalf("%+v %+v %v", c, pending, err)
		}
		if outcome, _ := f.s.SeekOutcome(f.ctx(), c.ID); outcome != "refused" {
			f.Errorf("outcome %q", outcome)
		}
		if cmd := f.seekOf(c); cmd != nil {
			f.Errorf("it is still asked for: %+v", cmd)
		}
	}},
	{"a seek needs a name and a reason", func(f *fixture) {
		c := f.claim(0)
		for _, words := range [][2]string{{"", "why"}, {"jo", ""}} {
			_, err := f.s.AskSeek(f.ctx(), c.ID, c.Partition.TopicID, 0, words[0], words[1])
			f.refused("without one of them", err, schemas.Invalid)
		}
	}},
}
