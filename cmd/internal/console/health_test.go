package console

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.checks = []api.Check{{Name: "topic events.acme.orders", Role: "stream", Error: "is not there"}, {Name: "ledger", OK: true}}
	h := f.handler(t, nil)
	s := get(t, h, "/console/health")
	s.says("p", "not ready This process cannot do all of its work.")
	s.says("tr", "topic events.acme.orders", "stream", "does not", "is not there")
	s.says("tr", "ledger", "all", "works")
	s.says("div", "Version", "(devel)")
	s.says("div", "Roles", "intake, stream")
	s.says("div", "Subscriptions", "1")
	r, err := http.NewRequestWithContext(api.As(t.Context(), &access.Who{Role: "viewer", Teams: []string{"pay"}}), http.MethodGet, "http://127.0.0.1/console/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	s = send(t, pagesOf(t, f.config()), r)
	s.says("p", "not ready")
	s.says("p", "Only those who may see all teams see them.")
	if slices.ContainsFunc(s.all("a"), func(n *html.Node) bool { return text(n) == "Audit" }) {
		t.Error("a viewer is led to what only auditors may see")
	}
	if strings.Contains(text(s.root), "acme") {
		t.Error("somebody of one team is shown what another has")
	}
}

// TestOverviewOfATeam: a page without the counters says that they are left out, and for whom they are.
func TestOverviewOfATeam(t *testing.T) {
	t.Parallel()
	f := newFake()
	const left = "are of all teams, and shown to who may see all"
	if s := get(t, f.handler(t, nil), "/console/"); strings.Contains(text(s.root), left) {
		t.Error("one who may see all is told that something is left out")
	}
	r, err := http.NewRequestWithContext(api.As(t.Context(), &access.Who{Role: "responder", Teams: []string{"acme"}}), http.MethodGet, "http://127.0.0.1/console/", nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, pagesOf(t, f.config()), r).says("p", left)
}

// TestAPanicOfACheckEndsNoProcess: a check that panics in a page's goroutine is a part that cannot be had, and no end of the process.
func TestAPanicOfACheckEndsNoProcess(t *testing.T) {
	t.Parallel()
	cfg := newFake().config()
	cfg.Ready = func(context.Context, bool) []api.Check { panic("a check of fault") }
	c := pagesOf(t, cfg)
	for _, path := range []string{"/console/", "/console/health"} {
		s := get(t, c, path)
		if s.status != http.StatusOK {
			t.Errorf("%s: %d", path, s.status)
		}
		s.says("section", "This part cannot be had: an error in this process: its log says where")
	}
	get(t, c, "/console/health").says("p", "not ready")
	if _, err := New(Config{API: c.API, Gatherer: c.Gatherer}); err == nil {
		t.Error("a console is made that cannot say whether the process is ready")
	}
}
