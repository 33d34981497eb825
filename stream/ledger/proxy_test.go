package ledger

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
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

// The connection breaks while COMMIT is on its way. Whether the server got it or not, the batch is applied once, and
// the caller gets the same answer.
func TestConnectionCutAtCommit(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before=%t", before), func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			p, g := throughProxy(t, f)
			c := g.claim(0)
			g.apply(c, seq(0, "e", 1), seq(1, "e", 3)) // every statement is prepared now
			p.Cut.Store(&cut{Needle: []byte(pg.Commit.Name), Before: before})
			a := g.apply(c, seq(2, "e", 2), seq(3, "x", 1))
			if p.Cuts.Load() != 1 {
				t.Fatal("the proxy did not cut")
			}
			if got := strings.Join(lanes(a.Actions), " "); got != "2:e-2:run 3:e-3:run 4:x-1:run" {
				t.Error(got)
			}
			if string(a.Actions[1].Packed) != "packed e-3" {
				t.Errorf("payload %q", a.Actions[1].Packed)
			}
			got := one[string](f, `SELECT concat_ws(' ', (SELECT count(*) FROM events), (SELECT sum(actions) FROM events), (SELECT count(*) FROM buffer),
				(SELECT next_offset FROM progress), (SELECT next_lane_seq FROM progress))`)
			if got != "4 4 0 4 5" {
				t.Error(got)
			}
			if a = g.apply(c, seq(4, "e", 4)); a.Outcomes[0].Decision != "applied" {
				t.Error(decisions(a))
			}
		})
	}
}

// The same for an expiry, which moves no offset to tell by.
func TestConnectionCutAtCommitOfExpire(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, g := throughProxy(t, f)
	c := g.claim(0)
	g.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "x", 1), seq(3, "x", 3))
	g.overdue()
	p.Cut.Store(&cut{Needle: []byte(pg.Commit.Name)})
	a, err := g.n.Expire(t.Context(), c)
	if err != nil || p.Cuts.Load() != 1 {
		t.Fatal(p.Cuts.Load(), err)
	}
	if got := strings.Join(lanes(a.Actions), " "); got != "3:e-3:run 4:x-3:run" {
		t.Error(got)
	}
	if got := one[int](f, `SELECT sum(actions) FROM events`); got != 4 {
		t.Errorf("%d actions", got)
	}
}

func TestConnectionCutAtRecordAndClaim(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, g := throughProxy(t, f)
	c := g.claim(0)
	g.apply(c, seq(0, "e", 1))
	if _, err := g.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: 1, Status: Failed, Attempt: 1, Class: "timeout"}}); err != nil {
		t.Fatal(err)
	}
	p.Cut.Store(&cut{Needle: []byte(pg.Commit.Name)})
	if _, err := g.n.Record(t.Context(), []Result{{Claim: c, LaneSeq: 1, Status: Failed, Attempt: 2, Class: "timeout"}}); err != nil {
		t.Fatal(err)
	}
	if got := one[string](f, `SELECT (SELECT attempts FROM actions) || ' ' || (SELECT count(*) FROM attempts)`); got != "2 2" {
		t.Error(got)
	}
	p.Cut.Store(&cut{Needle: []byte("commit\x00")})
	if got := g.claim(0); got.Epoch != 2 {
		t.Errorf("epoch %d", got.Epoch)
	}
	if p.Cuts.Load() != 2 {
		t.Errorf("%d cuts", p.Cuts.Load())
	}
}
