package app

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
)

// TestBrokenFiles: each file is one thing that waits, since it was found first, until it is good; what its problems say, which may be a secret,
// is not told.
func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	var a App
	a.current.Store(&config.Config{Teams: map[string]*config.Team{"acme": {}}})
	waits := func() []api.AttentionItem {
		var l look
		(&attention{a: &a}).ofFiles(t.Context(), &l)
		return l.rows
	}
	a.Kept(config.Problems{{File: "teams/acme.yaml", Line: 7, Message: "wh\u0073ec_0 is unknown"}, {File: "teams/acme.yaml", Line: 9}, {File: "teams/pay.yml"}})
	rows := waits()
	if len(rows) != 2 || rows[0].ID != "acme.yaml" || rows[0].Team != "acme" || rows[1].Team != "pay" {
		t.Fatalf("%+v", rows)
	}
	if d := rows[0].Detail; !strings.Contains(d, "teams/acme.yaml has 2 problems, the first in line 7: the team keeps what the file said before") || strings.Contains(d, "whsec") {
		t.Error(d)
	}
	if d := rows[1].Detail; !strings.Contains(d, "teams/pay.yml has a problem: the team has no file that was good before") {
		t.Error(d)
	}
	f := a.broken.files["teams/acme.yaml"]
	f.since = f.since.Add(-time.Hour)
	a.broken.files["teams/acme.yaml"] = f
	a.Kept(config.Problems{{File: "teams/acme.yaml", Line: 3}})
	if rows := waits(); len(rows) != 1 || time.Since(*rows[0].Since) < time.Hour {
		t.Errorf("broken again: %+v", rows)
	}
	a.Kept(nil)
	if rows := waits(); len(rows) != 0 {
		t.Errorf("mended: %+v", rows)
	}
}
