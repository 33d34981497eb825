package ledgertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// DatabaseURL is the Postgres of the tests. A run without one fails: what the ledger promises, Postgres does.
func DatabaseURL(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs Postgres")
	}
	url := os.Getenv("TEST_DATABASE_URL")
	if url == "" {
		t.Fatal("TEST_DATABASE_URL is not set: `make test` starts a Postgres and sets it")
	}
	return url
}

// Schema is a migrated schema of the test's own, dropped behind it.
func Schema(t testing.TB) ledger.Config {
	t.Helper()
	url := DatabaseURL(t)
	b := make([]byte, 6)
	_, _ = rand.Read(b)
	cfg := ledger.Config{URL: schemas.NewSecret(url), Schema: "t_" + hex.EncodeToString(b), MaxConns: 4}
	t.Cleanup(func() {
		if err := drop(url, cfg.Schema); err != nil {
			t.Error(err)
		}
	})
	if _, err := ledger.Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
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

func drop(url, schema string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `DROP SCHEMA IF EXISTS `+schema+` CASCADE`)
	return err
}
