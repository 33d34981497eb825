package console

import (
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
	s.says("p", "who may see all teams is shown them")
	if slices.ContainsFunc(s.all("a"), func(n *html.Node) bool { return text(n) == "Audit" }) {
		t.Error("a viewer is led to what only auditors may see")
	}
	if strings.Contains(text(s.root), "acme") {
		t.Error("somebody of one team is shown what another has")
	}
}
