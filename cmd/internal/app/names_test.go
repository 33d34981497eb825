package app

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// The source of another team is understood as lists show it, also in front of an event's id. A source of the team's own comes first.
func TestSourceOfAnotherTeam(t *testing.T) {
	t.Parallel()
	k := known{sources: []names.Name{{Team: "platform", Name: "stripe"}, {Team: "billing", Name: "own"}},
		reads: map[string][]names.Name{"billing": {{Team: "platform", Name: "stripe"}, {Team: "own", Name: "stripe"}}}}
	for _, tt := range [][4]string{
		{"/platform/stripe", "evt_1", "/platform/stripe", "evt_1"}, {"platform/stripe", "a/b", "/platform/stripe", "a/b"},
		{"platform", "stripe/evt_1", "/platform/stripe", "evt_1"}, {"platform", "stripe/in/1", "/platform/stripe", "in/1"},
		{"platform", "stripe", "/billing/platform", "stripe"}, {"platform", "other/evt_1", "/billing/platform", "other/evt_1"},
		{"own", "stripe/evt_1", "/billing/own", "stripe/evt_1"},
	} {
		if full, id := k.fullSource("billing", tt[0], tt[1]); full != tt[2] || id != tt[3] {
			t.Errorf("%s %s: %s %s", tt[0], tt[1], full, id)
		}
	}
}

// A ledger that is too large to be looked through for a source does not make a slip in its name an empty answer. What it has of a source
// that is not in the file any more is listed all the same.
func TestSlipInASourceOfALargeLedger(t *testing.T) {
	t.Parallel()
	place := newLedger(t)
	f := unowned(t, place)
	c := f.claim()
	f.apply(c, 0, "o-1", "e-1", 1)
	locks, looks := pgtest.Connect(t, place.url, place.schema), pgtest.Connect(t, place.url, place.schema)
	// slowly asks while the events cannot be read, until the searches for the source have given up: they are as slow as on many events.
	slowly := func(asks ...func() error) (answers []error) {
		t.Helper()
		tx, err := locks.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "LOCK TABLE events IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, len(asks))
		for _, ask := range asks {
			go func() { answered <- ask() }()
		}
		searches := func() (n int) {
			if err := looks.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE NOT l.granted AND l.relation = 'events'::regclass AND a.query LIKE 'SELECT EXISTS (SELECT FROM events WHERE source%'`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		for _, want := range []int{len(asks), 0} {
			if !rig.Until(time.Minute, func() bool { return searches() == want }) {
				t.Fatalf("%d searches for a source, want %d", searches(), want)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range asks {
			answers = append(answers, <-answered)
		}
		return answers
	}
	for _, err := range slowly(func() error {
		_, err := f.inbox.Items(t.Context(), api.InboxFilter{Source: "acme/oders", Limit: 10})
		return err
	}, func() error {
		_, err := (&deadLettersAPI{*f.inbox}).DeadLetters(t.Context(), api.DeadLetterFilter{Source: "acme/oders", Limit: 10})
		return err
	}) {
		if schemas.KindOf(err) != schemas.NotFound || !strings.Contains(err.Error(), "nothing is listed, and no source acme/oders is known; did you mean acme/orders?") {
			t.Error(err)
		}
	}
	delete(f.inbox.s.a.file().Teams["acme"].Sources, "orders")
	if err := slowly(func() error {
		page, err := f.inbox.Items(t.Context(), api.InboxFilter{Source: "acme/orders", Limit: 10})
		if len(page.Items) != 1 {
			t.Errorf("the ledger's events of a source that is gone: %+v", page.Items)
		}
		return err
	})[0]; err != nil {
		t.Error(err)
	}
}

// What is wrong with a question about an entity is told: it is no search that took too long.
func TestEntityThatCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	f := unowned(t, newLedger(t))
	f.apply(f.claim(), 0, "o-1", "e-1", 1)
	ask := api.EntityFilter{Team: "acme", Subscription: "fulfil", Source: "orders", Entity: "o-1", Limit: 5000}
	if d, err := f.inbox.Entity(t.Context(), ask); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), "limit 5000 is not in 1..1000") {
		t.Errorf("%+v %v", d, err)
	}
	ask.Limit = 10
	if d, err := f.inbox.Entity(t.Context(), ask); err != nil || len(d.Track) != 1 || d.Note != "" {
		t.Errorf("%+v %v", d, err)
	}
}

// A filter of the audit, or of a plan of which nothing is found, that names nothing known is an error with what may have been meant. What is
// known, and has nothing now, is an answer.
func TestSlipsInFiltersOfTheAuditAndOfPlans(t *testing.T) {
	t.Parallel()
	f := unowned(t, newLedger(t))
	c := f.claim()
	f.apply(c, 0, "o-1", "e-1", 1)
	audit, plans := &tokensAPI{*f.inbox}, &replaysAPI{f.inbox}
	box, _, err := f.inbox.open()
	if err != nil {
		t.Fatal(err)
	}
	_, err = audit.BeginChange(t.Context(), api.AuditItem{Actor: "ann", Action: "old.name", Team: "gone", Object: "x"})
	if err != nil {
		t.Fatal(err)
	}
	changes := func(f api.AuditFilter) func() error {
		return func() error {
			f.Limit = 10
			_, err := audit.Changes(t.Context(), f)
			return err
		}
	}
	plan := func(records int64, f ledger.ReplayFilter) func() error {
		return func() error {
			p := &inbox.Replay{Subscription: "acme.fulfil", Mode: ledger.ReplayFill, Filter: f, Bounds: []inbox.ReplayBounds{}, Counts: inbox.ReplayCounts{Records: records}}
			var err error
			if p.ID, err = box.SaveReplay(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			why := plans.refuseSlip(t.Context(), box, nameInTeam{"acme", "fulfil"}, p)
			kept, err := box.Replay(t.Context(), p.ID)
			if err != nil || (kept.CancelledAt != nil) != (why != nil) {
				t.Errorf("%v: a plan that is refused for %v is %s", err, why, kept.State())
			}
			return why
		}
	}
	for name, tt := range map[string]struct {
		ask  func() error
		says string // empty: an answer
	}{
		"nothing of a known team and action": {changes(api.AuditFilter{Team: "acme", Action: "dlq.replay"}), ""},
		"an actor and an object":             {changes(api.AuditFilter{Actor: "nobody", Object: "nothing"}), ""},
		"a team that is gone, of now":        {changes(api.AuditFilter{Team: "gone", Since: time.Now().Add(time.Hour)}), ""},
		"a slip in a team, of an actor":      {changes(api.AuditFilter{Team: "acmee", Actor: "ann"}), "no team acmee is known; did you mean acme?"},
		"a slip in an action":                {changes(api.AuditFilter{Action: "dlq.relpay"}), "did you mean dlq.replay?"},

		"a plan that found something":   {plan(1, ledger.ReplayFilter{Entity: "o-9", Types: []string{"ordr"}}), ""},
		"a plan of a known entity":      {plan(0, ledger.ReplayFilter{Entity: "o-1"}), ""},
		"a plan of a known type":        {plan(0, ledger.ReplayFilter{Types: []string{"order"}}), ""},
		"a plan of a slip in an entity": {plan(0, ledger.ReplayFilter{Entity: "o-11"}), "no event of entity o-11 is known; did you mean o-1?"},
		"a plan of a slip in a type":    {plan(0, ledger.ReplayFilter{Types: []string{"order", "ordr"}}), "no event of type ordr is known; did you mean order?"},
	} {
		err := tt.ask()
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}
