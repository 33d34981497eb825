package ledger

import (
	"net/url"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

type (
	proxy = pgtest.Proxy
	cut   = pgtest.Cut
)

// throughProxy opens the fixture's ledger again behind a proxy.
func throughProxy(t testing.TB, f *fixture, change ...func(*Spec)) (*proxy, *fixture) {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	p := pgtest.NewProxy(t, u.Host)
	u.Host = p.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	g := &fixture{t: t, cfg: f.cfg}
	g.cfg.URL = schemas.NewSecret(u.String())
	g.l = open(t, g.cfg)
	g.n = g.namespace(change...)
	return p, g
}
