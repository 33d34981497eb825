package ledgertest

import (
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// Open is a ledger in a migrated schema of the test's own, on the Postgres of the tests.
func Open(t testing.TB) (*ledger.Ledger, ledger.Config) {
	t.Helper()
	url, name := pgtest.Migrated(t)
	cfg := ledger.Config{URL: schemas.NewSecret(url), Schema: name, MaxConns: 4}
	l, err := ledger.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, cfg
}
