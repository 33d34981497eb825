package inbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay-io/forebay/stream/ledger"
)

// meager is a pool in which begin says before each transaction whether there is one.
type meager struct {
	pool
	begin func() error
}

func (m meager) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := m.begin(); err != nil {
		return nil, err
	}
	return m.pool.Begin(ctx)
}

// look counts in as many transactions as a look has time for.
func (f *fixture) look(t *Tally, room int) error {
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	f.slow = meager{f.pool(), func() error {
		if room--; room < 0 {
			cancel()
			return ctx.Err()
		}
		return nil
	}}
	return f.CountAttention(ctx, t)
}

// pool is the inbox's own, under whatever a test has put before it.
func (f *fixture) pool() pool {
	slow, _ := f.l.ReadPools()
	return slow
}

// subscriptionsThatWait makes so many subscriptions, in each of which a record waits that cannot be decided.
func (f *fixture) subscriptionsThatWait(n int) (counts []AttentionCount) {
	f.t.Helper()
	for i := range n {
		name := fmt.Sprintf("s%04d", i)
		f.n = f.namespace(func(s *ledger.Spec) { s.Name = "acme." + name })
		f.apply(f.claim(0), aside(0, "undecodable"))
		counts = append(counts, AttentionCount{Team: "acme", Subscription: name, Kind: AttentionQuarantined, Count: 1})
	}
	return counts
}

// A look that has no time for all subscriptions keeps what it has counted, and the next goes on there: after some looks all are known, and what
// has changed since is seen as well.
func TestLooksGoOnWhereTheOneBeforeEnded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	want := f.subscriptionsThatWait(7) // beside acme.triage, in which nothing waits
	var tally Tally
	for n, missing := range []int{5, 2} {
		err := f.look(&tally, 3)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d of 8 subscriptions are not counted yet", missing)) {
			t.Errorf("look %d: %v", n+1, err)
		}
		if d := cmp.Diff(want[:3*(n+1)], tally.Counts()); d != "" {
			t.Errorf("look %d: %s", n+1, d)
		}
	}
	if err := f.look(&tally, 3); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, tally.Counts()); d != "" {
		t.Error(d)
	}
	f.exec(`UPDATE rejected_records SET redriven_at = now(), redriven_by = 'jo', redriven_reason = 'seen'`)
	for left := 8; left > 0; left -= 3 {
		if err := f.look(&tally, 3); err != nil {
			t.Error(err)
		}
	}
	if got := tally.Counts(); len(got) > 0 {
		t.Errorf("counted still: %+v", got)
	}
}

// One subscription for which the time of a look is not enough, or which cannot be counted, is told of, keeps what was counted before, and holds
// up no other one.
func TestASubscriptionThatCannotBeCountedHoldsUpNone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	want := f.subscriptionsThatWait(5)[2:3]
	f.exec(`DELETE FROM subscriptions WHERE name = 'acme.triage'`)
	const stuck = "acme.s0002"
	slow := func(cut func()) error { cut(); return context.Canceled }
	refused := func(func()) error {
		return &pgconn.PgError{Code: "57014", Message: "canceling statement due to statement timeout"}
	}
	for what, fail := range map[string]func(cut func()) error{"it takes longer than a look": slow, "it is refused": refused} {
		f.exec(`UPDATE rejected_records SET redriven_at = NULL, redriven_by = NULL, redriven_reason = NULL`)
		var tally Tally
		if err := f.look(&tally, 100); err != nil {
			t.Fatal(err)
		}
		f.exec(`UPDATE rejected_records SET redriven_at = now(), redriven_by = 'jo', redriven_reason = 'seen'`)
		told := false
		for range 3 { // to it, it alone, and behind it
			at, _ := strconv.Atoi(strings.TrimPrefix(tally.begin, "acme.s"))
			ctx, cut := context.WithCancel(t.Context())
			f.slow = meager{f.pool(), func() error {
				if name := fmt.Sprintf("acme.s%04d", at%5); name == stuck {
					at++
					return fail(cut)
				}
				at++
				return nil
			}}
			told = f.CountAttention(ctx, &tally) != nil
			cut()
		}
		if d := cmp.Diff(want, tally.Counts()); d != "" || !told {
			t.Errorf("%s: told of: %t; %s", what, told, d)
		}
	}
}
