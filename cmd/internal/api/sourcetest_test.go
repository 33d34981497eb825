package api

import (
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
)

// TestSourceTest: a test goes where who sends it has seen that it goes, and takes more of a right where somebody acts on it.
func TestSourceTest(t *testing.T) {
	t.Parallel()
	w := &world{}
	c, _ := setup(t, w.config) // over the wire
	send := func(to ...string) error {
		_, err := c.TestSource(t.Context(), "acme", "github", SourceTest{Body: "{}", Headers: map[string]string{"X-Kind": "test"}, To: to, Reason: "a new secret"})
		return err
	}
	if err := send(); err != nil {
		t.Error(err)
	}
	w.reads = []string{"acme.triage"}
	w.taken()
	if err := send(); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("nobody was named: %v", err)
	}
	if _, by := w.taken(); by != nil {
		t.Error("it was sent all the same")
	}
	if err := send("acme.triage"); err != nil {
		t.Error(err)
	}
	var cfg Config
	w.config(&cfg)
	asked, err := InProcess(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for role, may := range map[string]bool{"admin": true, "operator": true, "source-admin": false, "responder": false} {
		w.taken()
		_, err := asked.TestSource(As(t.Context(), &access.Who{Name: role, Role: role, Teams: []string{"acme"}}), "acme", "github", SourceTest{To: []string{"acme.triage"}, Reason: "x"})
		if _, by := w.taken(); (err == nil) != may || (by != nil) != may {
			t.Errorf("%s: %v", role, err)
		}
	}
	none, _ := setup(t, func(of *Config) { w.config(of); of.SourceTests = nil })
	if _, err := none.TestSource(t.Context(), "acme", "github", SourceTest{DryRun: true}); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("a process without the intake role: %v", err)
	}
}
