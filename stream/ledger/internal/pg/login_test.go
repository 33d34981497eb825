package pg

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
)

// A role gets another password while a pool is open: what is open stays good, and what is made from then on logs in by what file or URL say now,
// the connection that listens, too. A file that is gone for a moment is waited for.
func TestLoginIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	admin := pool(t)
	role := "r_" + strings.ToLower(rand.Text()[:12])
	do := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
			t.Fatal(err)
		}
	}
	do(`CREATE ROLE ` + role + ` LOGIN PASSWORD 'first'`)
	t.Cleanup(func() { do(`DROP ROLE ` + role) })
	to, err := url.Parse(os.Getenv("TEST_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pgpass")
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("*:*:*:*:"+password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	q := to.Query()
	q.Set("passfile", file)
	to.User, to.RawQuery = url.User(role), q.Encode()
	inFile := schemas.NewSecret(to.String())
	q.Del("passfile")
	to.User, to.RawQuery = url.UserPassword(role, "first"), q.Encode()
	inURL := schemas.NewSecret(to.String())

	d := Deadlines{20 * time.Second}
	now, gone := inURL, error(nil)
	byFile, byURL := NewServer(inFile, d), NewServer(inURL, d)
	byURL.Follow(func() (schemas.Secret, error) { return now, gone })
	for _, s := range []*Server{byFile, byURL} {
		t.Cleanup(func() { _ = s.Close() })
		if _, err := s.Pool(t.Context(), d.Settings(), 1, d.Tx); err != nil {
			t.Fatal(err)
		}
	}
	works := func(when string) {
		t.Helper()
		for name, s := range map[string]*Server{"by its file": byFile, "by its URL": byURL} {
			if _, err := s.Pools()[0].Exec(t.Context(), `SELECT 1`); err != nil {
				t.Errorf("%s, %s: %v", when, name, err)
			}
		}
	}
	works("at first")
	do(`ALTER ROLE ` + role + ` PASSWORD 'second'`)
	works("on what is open")
	write("second")
	to.User = url.UserPassword(role, "second")
	now = schemas.NewSecret(to.String())
	do(`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '` + role + `'`)
	for _, s := range []*Server{byFile, byURL} {
		s.Pools()[0].Reset()
	}
	works("with the new password")
	ctx, cancel := context.WithCancel(t.Context())
	if err := byURL.Pools()[0].listen(ctx, "nothing", noBeat{}, cancel, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("listens: %v", err)
	}
	byURL.Pools()[0].Reset()
	gone = errors.New("no such file")
	if _, err := byURL.Pools()[0].Exec(t.Context(), `SELECT 1`); TroubleOf(err) != Transient {
		t.Errorf("while its file is gone: %v", err)
	}
}

type noBeat struct{}

func (noBeat) Began(context.Context, *pgx.Conn) error { return nil }
func (noBeat) Beat(context.Context, *pgx.Conn) error  { return nil }
func (noBeat) Ended()                                 {}
