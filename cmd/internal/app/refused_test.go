package app

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
)

// TestRefusedFiles: each file is one thing that waits, since it was found first, until it is good; what its problems say, which may be a secret,
// is not told.
func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	var a App
	a.current.Store(&config.Config{Teams: map[string]*config.Team{"acme": {}}})
	waits := func() []api.AttentionItem {
		var l look
		(&attention{a: &a}).ofFiles(t.Context(), &l)
		return l.rows
	}
	a.Refused(config.Problems{{File: "teams/acme.yaml", Line: 7, Message: "wh\u0073ec_0 is unknown"}, {File: "teams/acme.yaml", Line: 9}, {File: "teams/pay.yml"}})
	rows := waits()
	if len(rows) != 2 || rows[0].ID != "acme.yaml" || rows[0].Team != "acme" || rows[1].Team != "pay" {
		t.Fatalf("%+v", rows)
	}
	if kept, none := rows[0].Detail, rows[1].Detail; strings.Contains(kept, "whsec") || !strings.Contains(kept, "the team keeps") || strings.Contains(none, "the team keeps") {
		t.Errorf("%s\n%s", kept, none)
	}
	f := a.refused.files["teams/acme.yaml"]
	f.since = f.since.Add(-time.Hour)
	a.refused.files["teams/acme.yaml"] = f
	a.Refused(config.Problems{{File: "teams/acme.yaml", Line: 3}})
	if rows := waits(); len(rows) != 1 || time.Since(*rows[0].Since) < time.Hour {
		t.Errorf("broken again: %+v", rows)
	}
	a.cfg.Path = "forebay.yaml"
	a.Refused(config.Problems{{File: "forebay.yaml"}})
	if rows := waits(); len(rows) != 1 || !rows[0].Of("acme") {
		t.Errorf("the main file, which keeps every team from a change: %+v", rows)
	}
	a.Refused(nil)
	if rows := waits(); len(rows) != 0 {
		t.Errorf("mended: %+v", rows)
	}
}
