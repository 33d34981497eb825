package ledgertest

import (
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// Schema is a migrated schema of the test's own on the Postgres of the tests.
func Schema(t testing.TB) ledger.Config {
	t.Helper()
	url, name := pgtest.Migrated(t)
	return ledger.Config{URL: schemas.NewSecret(url), Schema: name, MaxConns: 4}
}

// Open is a ledger in a [Schema].
func Open(t testing.TB) (*ledger.Ledger, ledger.Config) {
	t.Helper()
	cfg := Schema(t)
	l, err := ledger.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, cfg
}
