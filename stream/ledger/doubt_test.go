package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// doubtful records results in a transaction that is committed and of which the caller never hears.
func (f *fixture) doubtful(p *proxy, results ...Result) {
	f.t.Helper()
	ctx, cancel := context.WithCancelCause(f.t.Context())
	cuts := p.Cuts.Load()
	p.Cut.Store(&cut{Needle: []byte(pg.Commit.Name), Then: func() { cancel(errors.New("cut short")) }})
	if _, err := f.n.Record(ctx, results); err == nil || p.Cuts.Load() == cuts {
		f.t.Fatalf("%d cuts: %v", p.Cuts.Load()-cuts, err)
	}
}

// A completion that stands twice is one: for the lanes, for operators, for what is counted.
func TestCompletionThatStandsTwice(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, g := throughProxy(t, f)
	c := g.claim(0)
	g.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1))
	g.record(Result{Claim: c, LaneSeq: 4, Status: Done, Attempt: 1}) // every statement is prepared now
	p.Cut.Store(&cut{Needle: []byte(pg.Commit.Name)})                // committed, not heard of, and recorded again at once
	g.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1, Code: 200, Response: []byte("ok")})
	other := Result{Claim: c, LaneSeq: 2, Status: Done, Attempt: 1}
	g.doubtful(p, other)
	g.record(other)
	if got := one[string](f, `SELECT string_agg(lanes::text, ' ' ORDER BY lanes) FROM completions`); got != "{1} {1} {2} {2} {4}" {
		t.Fatalf("%s after %d cuts", got, p.Cuts.Load())
	}
	for range 2 { // the claim that recorded it, and the next one
		if got := strings.Join(g.open(c), " "); got != "3:c-1:run" {
			t.Error(got)
		}
		c = g.claim(0)
	}
	item, err := f.item("a-1")
	if err != nil || item.Status != "done" || item.Attempts != 1 || len(item.Actions) != 1 || string(item.Actions[0].Response) != "ok" {
		t.Errorf("%+v %v", item, err)
	}
	if s, err := f.partitions(); err != nil || s[0].OpenActions != 1 {
		t.Errorf("%+v %v", s, err)
	}
}

// What may be done, for all that is known, gets no row that says otherwise: the mark of the claim would go past both, and
// the next owner would find the row alone and run the action again.
func TestDoneInDoubtIsNotOpenedAgain(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*fixture, *Claim){
		"a straggler": func(g *fixture, c *Claim) {
			g.turnWindow()
			g.apply(c, seq(10, "z", 1))
			g.record(Result{Claim: c, LaneSeq: 3, Status: Done, Attempt: 1})
		},
		"a copy": func(g *fixture, c *Claim) {
			g.copy(c, Copy{1, []byte("one")}, Copy{2, []byte("two")})
		},
	} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, again=%t", name, again), func(t *testing.T) {
				t.Parallel()
				f := setup(t)
				p, g := throughProxy(t, f)
				c := g.claim(0)
				g.apply(c, seq(0, "a", 1), seq(1, "b", 1))
				done := Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1}
				g.doubtful(p, done)
				meanwhile(g, c)
				g.record(Result{Claim: c, LaneSeq: 2, Status: Done, Attempt: 1})
				if again { // else the process ends here
					g.record(done)
				}
				if err := g.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
					t.Fatal(err)
				}
				if open := f.open(f.claim(0)); len(open) > 0 {
					t.Errorf("open again: %v", open)
				}
				if n := one[int](f, `SELECT count(*) FROM actions WHERE open`); n != 0 {
					t.Errorf("%d rows say that it is open", n)
				}
				item, err := f.item("a-1")
				if err != nil || item.Status != "done" {
					t.Errorf("%q %v", item.Status, err)
				}
			})
		}
	}
}
