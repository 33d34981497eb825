package app

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
)

// A ledger that is too large to be looked through for a source does not make a slip in its name an empty answer. What it has of a source
// that is not in the file any more is listed all the same.
func TestSlipInASourceOfALargeLedger(t *testing.T) {
	t.Parallel()
	url := database(t)
	f := unowned(t, url)
	c := f.claim()
	f.apply(c, 0, "o-1", "e-1", 1)
	var locks, looks *pgx.Conn
	for _, db := range []**pgx.Conn{&locks, &looks} {
		var err error
		if *db, err = pgx.Connect(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		defer (*db).Close(t.Context())
	}
	// slowly asks while the events cannot be read, until the searches for the source have given up: they are as slow as on many events.
	slowly := func(asks ...func() error) (answers []error) {
		t.Helper()
		tx, err := locks.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "LOCK TABLE forebay.events IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, len(asks))
		for _, ask := range asks {
			go func() { answered <- ask() }()
		}
		searches := func() (n int) {
			if err := looks.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE NOT l.granted AND a.query LIKE 'SELECT EXISTS (SELECT FROM events WHERE source%'`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		for _, want := range []int{len(asks), 0} {
			if !rig.Until(20*time.Second, func() bool { return searches() == want }) {
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
