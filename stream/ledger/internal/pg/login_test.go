package pg

import (
	"context"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/short"
)

// A role gets another password while a pool is open: what is open stays good, and what is made from then on logs in by what file or URL say now,
// the connection that listens, too. A certificate that is gone is that of the start; who could not be read otherwise is waited for.
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
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, certificate(), 0o600); err != nil {
		t.Fatal(err)
	}
	q := to.Query()
	q.Set("passfile", file)
	q.Set("sslmode", "prefer")
	q.Set("sslrootcert", ca)
	to.User, to.RawQuery = url.User(role), q.Encode()
	inFile := schemas.NewSecret(to.String())
	q.Del("passfile")
	q.Del("sslrootcert")
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
	if err := os.Remove(ca); err != nil {
		t.Fatal(err)
	}
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

// A URL that leads elsewhere by now is not followed: neither its address, nor with its login to the one that was.
func TestLoginElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	short.NeedsServer(t, "PostgreSQL")
	to, err := url.Parse(os.Getenv("TEST_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	q := to.Query()
	q.Set("sslmode", "prefer") // for which each connection has a second try
	to.RawQuery = q.Encode()
	there := *to
	to.Host = "127.0.0.1:1"
	unread := there
	q.Set("sslrootcert", "/nothing")
	unread.RawQuery = q.Encode()
	otherDatabase := there
	otherDatabase.Path = "/nothing"
	d := Deadlines{20 * time.Second}
	for _, tt := range []struct{ start, now *url.URL }{{to, &there}, {to, &unread}, {&otherDatabase, &there}} {
		s := NewServer(schemas.NewSecret(tt.start.String()), d)
		s.Follow(func() (schemas.Secret, error) { return schemas.NewSecret(tt.now.String()), nil })
		t.Cleanup(func() { _ = s.Close() })
		p, err := s.Pool(t.Context(), d.Settings(), 1, d.Tx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Exec(t.Context(), `SELECT 1`)
		if _, refused := errors.AsType[unreadError](err); !refused || TroubleOf(err) != Transient {
			t.Errorf("from %s to %s: %v", tt.start.Redacted(), tt.now.Redacted(), err)
		}
	}
}

// certificate returns one of a server that is not asked, as PEM.
func certificate() []byte {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

type noBeat struct{}

func (noBeat) Began(context.Context, *pgx.Conn) error { return nil }
func (noBeat) Beat(context.Context, *pgx.Conn) error  { return nil }
func (noBeat) Ended()                                 {}
