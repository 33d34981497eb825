package inbox

import (
	"context"
	"errors"
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
	return f.tally(ctx, t)
}

// tally counts, and returns why the counts are not those of the whole ledger.
func (f *fixture) tally(ctx context.Context, t *Tally) error {
	if err := f.CountAttention(ctx, t); err != nil {
		return err
	}
	return t.Missing()[""]
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
			err := f.tally(ctx, &tally)
			told = err != nil && strings.Contains(err.Error(), stuck)
			cut()
		}
		if d := cmp.Diff(want, tally.Counts()); d != "" || !told {
			t.Errorf("%s: told of: %t; %s", what, told, d)
		}
	}
}

// Of several subscriptions that cannot be counted, the first by its name is named, and how many they are; a team is told of its own.
func TestMissingNamesTheFirst(t *testing.T) {
	t.Parallel()
	tally := Tally{of: map[string]*tallied{}}
	for _, name := range []string{"acme.c", "acme.a", "acme.d", "acme.b"} {
		tally.of[name] = &tallied{failed: errors.New(name + " is refused")}
	}
	tally.of["acme.0"], tally.of["globex.a"] = &tallied{}, &tallied{}
	tally.of["shop.a"] = &tallied{counted: true}
	want := map[string]string{"": "acme.a is refused; 4 of 7 subscriptions cannot be counted", "acme": "acme.a is refused; 4 of 5 subscriptions cannot be counted",
		"globex": "1 of 1 subscriptions are not counted yet; the next look goes on there"}
	for range 10 {
		got := map[string]string{}
		for team, err := range tally.Missing() {
			got[team] = err.Error()
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	}
}

// A look whose time ends while it asks for dead letters has failed at nothing: the next one begins with that subscription.
func TestALookCutOffAtDeadLettersGoesOnThere(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.die(c, f.apply(c, seq(0, "a", 1)).Actions[0].LaneSeq, "a-1", 1)
	f.subscriptionsThatWait(1) // acme.s0000, before acme.triage
	var tally Tally
	err := f.look(&tally, 2)
	if err != nil || tally.FactsFailed != nil || tally.begin != "acme.triage" {
		t.Errorf("%v %v, the next look begins with %s", err, tally.FactsFailed, tally.begin)
	}
	if err := f.look(&tally, 2); err != nil || tally.FactsFailed != nil || len(tally.Dead()) != 1 {
		t.Errorf("%v %v %+v", err, tally.FactsFailed, tally.Dead())
	}
}

// That the server goes away is the failure of no subscription: the next look begins with the one that it was asked for. One that a look has begun
// with holds up no other, for it may be what ends the connection.
func TestALookThatLosesTheServer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.subscriptionsThatWait(3) // beside acme.triage
	for what, gone := range map[string]error{"reset": errors.New("read: connection reset"), "shutdown": &pgconn.PgError{Severity: "FATAL", Code: "57P01", Message: "shutdown"}} {
		var tally Tally
		if tally.Counts() != nil {
			t.Error("nothing was counted")
		}
		room := 2
		f.slow = meager{f.pool(), func() error {
			if room--; room < 0 {
				return gone
			}
			return nil
		}}
		for _, begin := range []string{"acme.s0002", "acme.triage"} {
			err := f.CountAttention(t.Context(), &tally)
			if err == nil || !strings.Contains(err.Error(), what) || tally.begin != begin {
				t.Errorf("%v, the next look begins with %s, want %s", err, tally.begin, begin)
			}
			if missing := tally.Missing()[""]; missing == nil || !strings.HasPrefix(missing.Error(), "2 of 4 subscriptions are not counted yet") {
				t.Error(missing)
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		tally.FactsFailed = gone // of the look before
		if err := f.CountAttention(ended, &tally); err == nil || tally.FactsFailed != nil || len(tally.Counts()) != 2 {
			t.Errorf("%v %v %+v", err, tally.FactsFailed, tally.Counts())
		}
	}
}

// What cannot be listed of one subscription holds up no other.
func TestASubscriptionThatCannotBeListedHoldsUpNone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	counts, asked := f.subscriptionsThatWait(3), 0
	f.slow = meager{f.pool(), func() error {
		if asked++; asked == 2 {
			return &pgconn.PgError{Code: "57014", Message: "canceling statement due to statement timeout"}
		}
		return nil
	}}
	found, err := f.Attention(t.Context(), counts, 10)
	if err == nil || !strings.Contains(err.Error(), "in acme.s0001: ") {
		t.Error(err)
	}
	if len(found) != 2 || found[0].Subscription != "s0000" || found[1].Subscription != "s0002" {
		t.Errorf("%+v", found)
	}
}
