package app

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/cmd/internal/alerts"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

var (
	descName   = regexp.MustCompile(`fqName: "([^"]+)"`)
	descConst  = regexp.MustCompile(`([a-zA-Z_]+)="`)
	descLabels = regexp.MustCompile(`variableLabels: \{([^}]*)\}`)
)

// described returns the labels of all metrics that a registry has, by name, whether or not they have a value yet.
func described(r *prometheus.Registry) map[string][]string {
	all := make(chan *prometheus.Desc)
	go func() { r.Describe(all); close(all) }()
	out := map[string][]string{}
	for d := range all {
		text := d.String()
		name := descName.FindStringSubmatch(text)[1]
		labels := strings.Split(descLabels.FindStringSubmatch(text)[1], ",")
		_, constant, _ := strings.Cut(text, "constLabels: {")
		constant, _, _ = strings.Cut(constant, "}, variableLabels")
		for _, m := range descConst.FindAllStringSubmatch(constant, -1) {
			labels = append(labels, m[1])
		}
		out[name] = append(out[name], labels...)
	}
	return out
}

// asked is a metric that a rule for Prometheus asks for, the labels that it is put together by, and one that it is chosen by.
var asked = regexp.MustCompile(`by \(([a-z, ]+)\) \((?:increase\()?(forebay_[a-z_]+)(?:\{([a-z]+)=)?`)

// named is what asks for two metrics in one.
var named = regexp.MustCompile(`(by \([a-z, ]+\) \()\{__name__=~"([a-z_]+)\|([a-z_]+)"\}`)

// Every metric and label that an alert names is one that a process which runs has.
func TestAlertsAskForWhatIsThere(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	p := deploy(t, a.URL, newLedger(t), true).run(config.RoleIntake, config.RoleStream)
	have := described(p.app.registry)
	rules, err := os.ReadFile("../../../deploy/alerts/forebay.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules = named.ReplaceAll(rules, []byte("${1}$2 ${1}$3"))
	all := asked.FindAllStringSubmatch(string(rules), -1)
	if len(all) < len(alerts.Rules(alerts.Defaults())) || len(all) != strings.Count(string(rules), "forebay_") {
		t.Errorf("%d metrics were found in the rules", len(all))
	}
	for _, m := range all {
		labels, ok := have[m[2]]
		if !ok {
			t.Errorf("there is no metric %s", m[2])
		}
		for _, l := range append(strings.Split(m[1], ", "), m[3]) {
			if l != "" && !slices.Contains(labels, l) {
				t.Errorf("%s has no label %s; it has %v", m[2], l, labels)
			}
		}
	}
	p.clean()
}

// What waits is counted by who has it, from all that a look finds.
func TestWaitingByOwner(t *testing.T) {
	t.Parallel()
	one, two := int32(1), int32(2)
	l := look{
		ledger: []inbox.AttentionCount{{Team: "acme", Subscription: "fulfil", Kind: inbox.AttentionDead, Count: 7}},
		rows: []api.AttentionItem{
			{Kind: api.KindStopped, ID: "acme.fulfil", Team: "acme", Partition: &one}, {Kind: api.KindStopped, ID: "acme.fulfil", Team: "acme", Partition: &two},
			{Kind: api.KindKeys, ID: "acme/orders", Team: "acme"}, {Kind: api.KindPaused, ID: "pagers"},
			{Kind: api.KindApproval, ID: "7", Team: "acme", Subscription: "fulfil"}, {Kind: api.KindApproval, ID: "8", Team: "acme", Subscription: "fulfil"},
		},
		backlogs: map[nameInTeam]producer.Backlog{{"acme", "orders"}: {}},
	}
	for _, entity := range []string{"o-1", "o-2"} { // each has an id of its own, which is no label
		l.rows = append(l.rows, budgetRow(ledger.CounterUsed{Name: "budget teams.acme.budget.runs /acme/orders " + entity, Used: 5, Limit: 5}, &config.Config{}, nil, time.Now()))
		if got, want := l.rows[len(l.rows)-1].ID, "teams.acme.budget.runs /acme/orders "+entity; got != want {
			t.Errorf("the id is %q, want %q", got, want)
		}
	}
	for _, entity := range []string{"o-1", "o-2"} { // of a shared destination
		l.rows = append(l.rows, api.AttentionItem{Kind: api.KindBudget, ID: "destinations.pool.budget.runs /acme/orders " + entity, Source: "/acme/orders", Entity: entity, Teams: []string{"beta", "pay"}})
	}
	l.rows = append(l.rows, api.AttentionItem{Kind: api.KindBudget, ID: "destinations.one.budget.runs", Teams: []string{"beta", "*"}})
	want := map[[3]string]float64{{"budget", "beta", "destinations.pool.budget.runs"}: 2, {"budget", "pay", "destinations.pool.budget.runs"}: 2, {"budget", "", "destinations.one.budget.runs"}: 1,
		{"dead_letter", "acme", "acme.fulfil"}: 7, {"stopped_partition", "acme", "acme.fulfil"}: 2,
		{"unmatched_keys", "acme", "acme/orders"}: 1, {"paused_destination", "", "pagers"}: 1, {"approval", "acme", "acme.fulfil"}: 2, {"budget", "acme", "teams.acme.budget.runs"}: 2}
	if diff := cmp.Diff(want, l.byOwner()); diff != "" {
		t.Error(diff)
	}
}

// A token that was made for a few days is meant to end, and one that was revoked has.
func TestTokenEnds(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	ends := tokenEnds([]ledger.Token{
		{Name: "ci", CreatedAt: made, ExpiresAt: made.AddDate(0, 3, 0)}, {Name: "visit", CreatedAt: made, ExpiresAt: made.AddDate(0, 0, 7)},
		{Name: "gone", CreatedAt: made, ExpiresAt: made.AddDate(0, 3, 0), RevokedAt: &made},
	})
	if diff := cmp.Diff(map[string]time.Time{"token ci": made.AddDate(0, 3, 0)}, ends); diff != "" {
		t.Error(diff)
	}
}

// That a part of a look fails takes nothing else with it: that dead letters cannot be looked at for alerts takes no count and ends no alert; that
// a subscription cannot be counted blanks nothing, and gauge and list have what was counted before and what can be read, and say what is missing.
func TestALookThatFailsInPart(t *testing.T) {
	t.Parallel()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) }))
	t.Cleanup(refuses.Close)
	ledger := newLedger(t)
	p := deploy(t, refuses.URL, ledger, true).run(config.RoleIntake, config.RoleStream)
	p.accepted("orders", "orders-secret", order("o-1", 1))
	p.item("fulfil", "orders", "o-1-1", "applied", "dead_letter")
	before, err := p.app.waits.look(t.Context(), 0)
	if err != nil || len(before.dead) != 1 || before.nothing("dead_letter") || len(before.part) > 0 {
		t.Fatalf("%+v %v %v", before.dead, before.unknown, err)
	}
	db := pgtest.Connect(t, ledger.url, ledger.schema)
	rename := func(table, from, to string) { // of a column, so that what needs it fails
		t.Helper()
		var err error
		if !rig.Until(time.Minute, func() bool { // it may be in a deadlock with what the process reads
			_, err = db.Exec(t.Context(), `ALTER TABLE `+table+` RENAME COLUMN `+from+` TO `+to)
			return err == nil
		}) {
			t.Fatal(err)
		}
	}
	rename("actions", "deaths", "elsewhere")
	after, err := p.app.waits.look(t.Context(), 0)
	if err != nil || after.unknown["dead_letter"] != "" {
		t.Errorf("%v %v", after.unknown, err)
	}
	if diff := cmp.Diff(before.ledger, after.ledger); diff != "" || len(after.ledger) == 0 {
		t.Errorf("what waits: %s", diff)
	}
	if diff := cmp.Diff(before.dead, after.dead); diff != "" {
		t.Errorf("dead letters: %s", diff)
	}
	says := func(rows int) {
		t.Helper()
		l, err := p.app.waits.look(t.Context(), 0)
		if err != nil || !strings.Contains(l.unknown["dead_letter"], "acme.fulfil") {
			t.Errorf("%v %v", l.unknown, err)
		}
		gauge := p.app.waits.gauge.WithLabelValues("dead_letter")
		gauge.Set(7) // of before
		if p.app.waits.show(l); testutil.ToFloat64(gauge) != 1 {
			t.Errorf("the gauge says %v", testutil.ToFloat64(gauge))
		}
		if sum, more, known := l.ofSubscription(nameInTeam{"acme", "fulfil"}); sum != 1 || !more || !known {
			t.Errorf("of the subscription: %d %t %t", sum, more, known)
		}
		if why, other := l.unknownTo("acme", "dead_letter"), l.unknownTo("globex", "dead_letter"); why == "" || other != "" {
			t.Errorf("a team is told %q, another %q", why, other)
		}
		list, err := p.app.waits.list(t.Context(), api.AttentionFilter{Kind: "dead_letter", Limit: 20})
		if err != nil || len(list.Items) != rows || len(list.Unknown) != 1 {
			t.Fatalf("%+v %v", list, err)
		}
		if diff := cmp.Diff([]api.AttentionCount{{Kind: "dead_letter", Count: 1, More: true}}, list.Counts); diff != "" {
			t.Error(diff)
		}
	}
	rename("rejected_records", "redriven_at", "elsewhere")
	says(0)
	rename("actions", "elsewhere", "deaths")
	says(1)
}
