package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestUnshareGoesByWhatRuns: whom a share is taken away from is stopped, whatever its own file says by now and whatever else is in the files.
func TestUnshareGoesByWhatRuns(t *testing.T) {
	t.Parallel()
	const payments = `  payments:
    sources:
      cards: {preset: github, secrets: [s]}
    destinations:
      log: {type: log}
    subscriptions:
      risk: {sources: [cards, acme/orders], actions: [{name: a, to: log}]}
`
	shared := strings.Replace(fmt.Sprintf(deploymentText, "127.0.0.1:1", `postgres: {url: "postgres://127.0.0.1:1/none"}`, "http://127.0.0.1:1"),
		"      orders:\n", "      orders:\n        share: [payments]\n", 1)
	withdrawn := strings.Replace(shared, "share: [payments]", "share: [other]", 1)
	risk := "      risk: {sources: [cards, acme/orders], actions: [{name: a, to: log}]}\n"
	for name, tt := range map[string]struct {
		read   string // acme's part
		edited string // payments' part
		bars   bool
		stops  bool // it may begin again, then
	}{
		"nothing changed":                     {shared, payments, false, false},
		"taken away":                          {withdrawn, payments, true, true},
		"taken away, the subscription gone":   {withdrawn, strings.Replace(payments, risk, "      {}\n", 1), true, true},
		"taken away, the subscription again":  {withdrawn, strings.Replace(payments, "risk:", "risks:", 1), true, true},
		"taken away, the source taken out":    {withdrawn, strings.Replace(payments, "cards, acme/orders", "cards", 1), false, true},
		"taken away, the team gone":           {withdrawn, "", true, true},
		"taken away, payments' file mistyped": {withdrawn, strings.Replace(payments, "type: log", "type: lok", 1), true, true},
		"the source gone":                     {strings.NewReplacer("      orders:\n", "      orders2:\n", "[orders]", "[orders2]").Replace(shared), payments, true, true},
		"taken out, and shared on":            {shared, strings.Replace(payments, "cards, acme/orders", "cards", 1), false, true},
		"another's written, and shared on":    {shared, strings.Replace(payments, "cards, acme/orders", "acme/orders, acme/github", 1), false, false},
		"share mistyped":                      {strings.Replace(shared, "share: [payments]", "share: payments", 1), payments, false, false},
		"the file is no YAML":                 {shared + "  [", payments, false, false},
		"a key of all mistyped":               {strings.Replace(shared, "teams:\n", "tems:\n", 1), payments, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &deployment{t: t, text: shared + payments}
			a := r.app(config.RoleStream)
			defer a.waits.close(t.Context())
			at, stopped := nameInTeam{"payments", "risk"}, false
			a.stream.stops[at] = func() { stopped = true }
			c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(tt.read + tt.edited), Roles: []config.Role{config.RoleStream}, Run: true, Shared: a.Unshare})
			if err == nil {
				err = a.Reload(c)
			}
			why := a.stream.barred(at)
			if stopped != tt.stops || (why != "") != tt.bars {
				t.Errorf("stopped: %t (%q), want %t and that it is barred %t; the reload says %v", stopped, why, tt.stops, tt.bars, err)
			}
			if fulfil := a.stream.barred(nameInTeam{"acme", "fulfil"}); fulfil != "" {
				t.Errorf("acme's own subscription does not run: %s", fulfil)
			}
		})
	}
}

// TestWhatCannotBeMadeIsBarred: a subscription that a reload has begin again, and that cannot be made so, ends no process, and runs once it can.
func TestWhatCannotBeMadeIsBarred(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", newLedger(t), false)
	r.text += beta
	r.createTopics()
	p := r.run(config.RoleStream)
	as := r.text
	r.text = strings.NewReplacer("      agent: {", "      late: {type: http, url: https://late.example.com, long: {deadline: 1h}}\n      agent: {",
		"to: agent}]", "to: agent}, {name: later, to: late}]",
		"teams:\n", "agents: {public_url: \"https://agents.example.com\", secrets: [whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz]}\nteams:\n", "operator: \"127.0.0.1:0\"}", "operator: \"127.0.0.1:0\", agents: \"127.0.0.1:0\"}").Replace(as)
	read := r.load(config.RoleStream)
	read.Listen.Agents, read.Agents.PublicURL = "", "" // what Take keeps out, should it ever miss some
	inForce, _, err := p.app.stream.reload(p.app.file(), read)
	if err != nil {
		t.Fatal(err)
	}
	p.app.current.Store(read)
	inForce()
	barred := func() string { return p.app.stream.barred(nameInTeam{"acme", "fulfil"}) }
	if !rig.Until(time.Minute, func() bool { return strings.Contains(barred(), "destination acme/late") }) {
		t.Errorf("it is barred for %q", barred())
	}
	r.text = as
	r.reload(p, config.RoleStream)
	if !rig.Until(time.Minute, func() bool {
		status, _ := p.readyz()
		return barred() == "" && status == http.StatusOK
	}) {
		t.Errorf("it does not run again: %q", barred())
	}
	if why := p.app.stream.barred(nameInTeam{"beta", "risk"}); why != "" {
		t.Errorf("another team's does not run: %s", why)
	}
	p.clean()
}
