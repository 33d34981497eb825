package pg

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/short"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pool is one on the Postgres of the tests.
func pool(t *testing.T) *Pool {
	t.Helper()
	short.NeedsServer(t, "PostgreSQL")
	url := os.Getenv("TEST_DATABASE_URL")
	if url == "" {
		t.Fatal("TEST_DATABASE_URL is not set: `make test` starts a Postgres and sets it")
	}
	d := Deadlines{20 * time.Second}
	s := NewServer(schemas.NewSecret(url), d)
	p, err := s.Pool(t.Context(), d.Settings(), 2, d.Tx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// A COMMIT that waits for a standby is not cancelled, however long that takes: the server would say that the standby has it.
func TestCommitIsNotCancelled(t *testing.T) {
	t.Parallel()
	conn, err := pool(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	answered := Committing(conn.Conn().PgConn())
	if err := conn.Conn().PgConn().CancelRequest(t.Context()); err == nil || !strings.Contains(err.Error(), "not cancelled") {
		t.Errorf("cancelled: %v", err)
	}
	answered()
	if err := conn.Conn().PgConn().CancelRequest(t.Context()); err != nil {
		t.Errorf("what is no COMMIT is not cancelled: %v", err)
	}
}

// A session that is read only stays so when its server is not any more: the next try has another one.
func TestReadOnlySessionIsGivenUp(t *testing.T) {
	t.Parallel()
	p := pool(t)
	if _, err := p.Exec(t.Context(), `SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	const write = `CREATE TABLE pg_catalog.nobody_may ()` // refused for the one reason or for the other
	for _, want := range []string{"25006", "42501"} {
		_, err := p.Exec(t.Context(), write)
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != want {
			t.Errorf("a write: %v, want SQLSTATE %s", err, want)
		}
	}
}
