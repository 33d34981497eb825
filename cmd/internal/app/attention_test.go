package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
	"github.com/forebay-io/forebay/stream/policy"
)

// TestRowsOfTeams: what stops several teams is in the list of each of them, and in no other's; a budget's command is that of its
// on_limit, wherever the file has it.
func TestRowsOfTeams(t *testing.T) {
	t.Parallel()
	file, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(`version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://x@127.0.0.1/x"}
destinations:
  pool: {type: http, url: "https://pool.example", agent: coder, teams: [acme, beta], budget: {cost: {limit: 5, per: 1d}, on_limit: park}}
teams:
  acme:
    destinations:
      bot: {type: http, url: "https://bot.example", agent: coder, budget: {runs: {limit: 5, per: 1d}, on_limit: drop}}
    sources:
      orders: {preset: generic, secrets: [x], verify: {signature_header: X-S}, event: {id: /id, type: /t, entity: [/e], version: {from: /rev, kind: sequence}}, share: [beta]}
  beta:
    subscriptions:
      pays: {sources: [acme/orders], begin: all, actions: [{name: run, to: pool}]}
  gamma: {}
`)})
	if err != nil {
		t.Fatal(err)
	}
	pause := func(key string) api.AttentionItem {
		scope, name, _ := scopeOf(key)
		return scopeRow(scope, name, key, &ledger.Pause{}, file)
	}
	budget := func(name string) api.AttentionItem {
		return budgetRow(ledger.CounterUsed{Name: policy.BudgetCounters + name, Used: 5, Limit: 5}, file, budgetLimits(file, time.Now()), time.Now())
	}
	parks, drops := "forebay dlq list --class budget", "forebay inbox list --status dropped"
	for _, c := range []struct {
		name    string
		row     api.AttentionItem
		of      []string
		command string
	}{
		{"all", pause(ledger.AllSubscriptions), []string{"acme", "beta", "gamma"}, "forebay resume --all --reason TEXT"},
		{"a team", pause(ledger.TeamSubscriptions("beta")), []string{"beta"}, "forebay resume --team beta --reason TEXT"},
		{"an agent", pause(ledger.AgentDestinations("coder")), []string{"acme", "beta"}, "forebay resume --agent coder --reason TEXT"},
		{"an agent that is gone", pause(ledger.AgentDestinations("gone")), nil, "forebay resume --agent gone --reason TEXT"},
		{"a shared destination's budget", budget("destinations.pool.budget.cost"), []string{"acme", "beta"}, parks},
		{"an entity's of it", budget("destinations.pool.budget.cost /acme/orders o-1"), []string{"beta"}, parks}, // whose action is held up, not whose event it is
		{"one of which none is held up", budget("destinations.pool.budget.cost /acme/others o-1"), nil, parks},
		{"a team destination's", budget("teams.acme.destinations.bot.budget.runs"), []string{"acme"}, drops + " --team acme"},
		{"one that is gone", budget("teams.acme.budget.runs"), []string{"acme"}, "forebay inbox list --status waiting_budget --team acme"},
	} {
		var of []string
		for _, team := range []string{"acme", "beta", "gamma"} {
			if c.row.Of(team) {
				of = append(of, team)
			}
		}
		if !slices.Equal(of, c.of) || c.row.Command != c.command {
			t.Errorf("%s: of %v, want %v; %s, want %s", c.name, of, c.of, c.row.Command, c.command)
		}
	}
}

// What is listed whole is counted as it is listed; what was counted in part is not made less by a shorter list.
func TestRecount(t *testing.T) {
	t.Parallel()
	out := &api.Attention{Items: []api.AttentionItem{{Kind: "held"}, {Kind: "parked"}, {Kind: "conflict"}, {Kind: "conflict"}},
		Counts: []api.AttentionCount{{Kind: "parked", Count: 1, More: true}, {Kind: "held", Count: 2}, {Kind: "conflict", Count: 7}}}
	recount(out, 2)
	if d := cmp.Diff([]api.AttentionCount{{Kind: "parked", Count: 1, More: true}, {Kind: "held", Count: 1}, {Kind: "conflict", Count: 7}}, out.Counts); d != "" {
		t.Error(d)
	}
}

// However much of one team waits, what waits of another is counted and listed, and of the first it is said that there is more.
func TestMuchOfATeamHidesNoOther(t *testing.T) {
	t.Parallel()
	place := newLedger(t)
	from, err := ledger.Open(t.Context(), place.config())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	db := pgtest.Connect(t, place.url, place.schema)
	for _, sql := range []string{
		`INSERT INTO subscriptions (name) VALUES ('acme.fulfil'), ('pay.bills')`,
		`INSERT INTO approvals (subscription, action_id, action, destination, digest, entity, version, source, event_id, type, why, sends, roles, four_eyes, expires_at)
			SELECT s.id, gen_random_uuid(), 'run', 'd', sha256(''), 'e', '', 's', 'i', 't', 'w', '', '{approver}', false, now() + interval '1 hour'
			FROM subscriptions s, generate_series(1, 1001) n WHERE n = 1 OR s.name = 'acme.fulfil' ORDER BY s.name`,
		`INSERT INTO counters SELECT 'budget destinations.pool.budget.runs ' || source || ' e' || n, now(), 9, 10, 1, 1, now() + interval '1 hour'
			FROM unnest(ARRAY['/acme/orders', '/pay/bills']) source, generate_series(1, 101) n WHERE n = 1 OR source = '/acme/orders'`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	file, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(strings.ReplaceAll(`version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://x@127.0.0.1/x"}
destinations:
  pool: {type: http, url: "https://pool.example", teams: [acme, pay], budget: {of: entity, runs: {limit: 10, per: 1d}, cost: {limit: 5, per: 1d}}}
teams:
  acme:
    sources:
      orders: GENERIC
    subscriptions:
      fulfil: {sources: [orders], begin: all, actions: [{name: run, to: pool}]}
  pay:
    sources: {bills: GENERIC}
    subscriptions:
      bills: {sources: [bills], begin: all, actions: [{name: run, to: pool}]}
`, "GENERIC", "{preset: generic, secrets: [x], verify: {signature_header: X-S}, event: {id: /id, type: /t, entity: [/e], version: {from: /rev, kind: sequence}}}"))})
	if err != nil {
		t.Fatal(err)
	}
	a := &App{stream: &streams{ledger: from}}
	a.current.Store(file)
	l := look{at: time.Now(), unknown: map[string]string{}}
	l.take(t.Context(), (&attention{a: a}).ofApprovals, (&attention{a: a}).ofBudgets)
	for team, want := range map[string][]api.AttentionCount{
		"acme": {{Kind: api.KindApproval, Count: mostApprovals, More: true}, {Kind: api.KindBudget, Count: mostBudgets, More: true}},
		"pay":  {{Kind: api.KindApproval, Count: 1}, {Kind: api.KindBudget, Count: 1}},
		"":     {{Kind: api.KindApproval, Count: mostApprovals + 1, More: true}, {Kind: api.KindBudget, Count: mostBudgets + 1, More: true}},
	} {
		got := slices.DeleteFunc(l.counts(team), func(c api.AttentionCount) bool { return c.Count == 0 && !c.More })
		slices.SortFunc(got, func(a, b api.AttentionCount) int { return strings.Compare(a.Kind, b.Kind) })
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("team %q (-want +got):\n%s", team, d)
		}
	}
	if sum, more, _ := l.ofSubscription(nameInTeam{"acme", "fulfil"}); sum != mostApprovals || !more {
		t.Errorf("of the first subscription: %d %t", sum, more)
	}
	if sum, more, _ := l.ofSubscription(nameInTeam{"pay", "bills"}); sum != 1 || more {
		t.Errorf("of the other: %d %t", sum, more)
	}
	rename := func(from, to string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), `ALTER TABLE `+from+` RENAME TO `+to); err != nil {
			t.Fatal(err)
		}
	}
	before := l.byOwner()
	rename("windows", "elsewhere") // so that nobody knows for which budgets actions wait
	for range 2 {
		next := look{at: time.Now(), unknown: map[string]string{}}
		next.take(t.Context(), (&attention{a: a}).ofApprovals, (&attention{a: a}).ofBudgets)
		next.keep(l)
		if l = next; l.unknown[api.KindBudget] == "" {
			t.Error("all is known of budgets")
		}
	}
	rename("elsewhere", "windows")
	if d := cmp.Diff(before, l.byOwner()); d != "" {
		t.Errorf("by owner, after looks that failed (-want +got):\n%s", d)
	}
}

// A quarantine topic that could not be read to its ends is said where the numbers stand, to its team alone.
func TestQuarantineTopicsThatAreNotRead(t *testing.T) {
	t.Parallel()
	l := look{unknown: map[string]string{}, backlogs: map[nameInTeam]producer.Backlog{{"acme", "orders"}: {More: true, Err: errors.New("no right")}, {"acme", "other"}: {More: true, Err: errors.New("no time")}, {"beta", "pays"}: {}}}
	for team, want := range map[string]string{"": "acme/orders: no right", "acme": "acme/orders: no right", "beta": ""} {
		if got := l.unknownTo(team, api.KindQuarantinedDelivery); got != want {
			t.Errorf("team %q is told %q, want %q", team, got, want)
		}
	}
	l.unknown[api.KindQuarantinedDelivery] = "nobody answers"
	if got := l.unknownTo("beta", api.KindQuarantinedDelivery); got != "nobody answers" {
		t.Errorf("told %q", got)
	}
}

// What waits is asked for as a role that the process has: an intake with least rights has no login of the stream's.
func TestAttentionAsksAsItsRole(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		roles []config.Role
		want  string
	}{
		{[]config.Role{config.RoleIntake}, "forebay-intake"},
		{[]config.Role{config.RoleStream}, "forebay-stream"},
		{[]config.Role{config.RoleIntake, config.RoleStream}, "forebay-stream"},
	} {
		r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: \"postgres://127.0.0.1:1/none\"}", "http://127.0.0.1:1")}
		a := r.app(tt.roles...)
		if _, err := a.waits.admin(); err != nil {
			t.Error(err)
		} else if got := a.waits.client.OptValue(kgo.ClientID); got != tt.want {
			t.Errorf("%v asks as %v, want %s", tt.roles, got, tt.want)
		}
		a.waits.close(t.Context())
		if a.intake != nil {
			a.intake.close(t.Context())
		}
	}
}

// A look that goes on when the process has no more time has its client closed behind it.
func TestAttentionClosesBehindALook(t *testing.T) {
	t.Parallel()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: \"postgres://127.0.0.1:1/none\"}", "http://127.0.0.1:1")}
	a := r.app(config.RoleStream)
	if _, err := a.waits.admin(); err != nil {
		t.Fatal(err)
	}
	a.waits.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.waits.close(ctx)
	<-a.waits.turn
	select {
	case <-a.waits.client.Context().Done():
	case <-time.After(time.Minute):
		t.Error("its client is open")
	}
}

// That the ledger does not answer ends no incident: readiness, gauge and log go by what was found last, and the list says what is unknown.
func TestAttentionKeepsWhatItCannotSee(t *testing.T) {
	t.Parallel()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: \"postgres://127.0.0.1:1/none\"}", "http://127.0.0.1:1")}
	var said strings.Builder
	r.log = slog.New(slog.NewTextHandler(&said, nil))
	a := r.app(config.RoleStream)
	defer a.waits.close(t.Context())
	at, number, since := nameInTeam{"acme", "fulfil"}, int32(3), time.Now().Add(-time.Hour)
	found := look{at: since, unknown: map[string]string{},
		ledger: []inbox.AttentionCount{{Team: "acme", Subscription: "fulfil", Kind: inbox.AttentionHeld, Count: 2}},
		partitions: partitions{standing: []standing{{partitionKey: partitionKey{at, "t", number}, state: stateUnread, mine: true, since: since, seen: since}},
			counts: map[nameInTeam]api.PartitionCounts{at: {Total: 6, Running: 5, Unread: 1}}},
		rows: []api.AttentionItem{{Kind: api.KindUnread, ID: "acme.fulfil", Team: "acme", Subscription: "fulfil", Topic: "t", Partition: &number, Since: &since}}}
	a.waits.last = found
	a.waits.show(found)
	for range 2 { // the ledger is not open: it answers neither time
		l, err := a.waits.look(t.Context(), 0)
		if err != nil || l.unknown["held"] == "" || l.unknown[api.KindUnread] == "" {
			t.Fatal(l.unknown, err)
		}
		a.waits.show(l)
	}
	a.waits.began = since
	if err := a.waits.standsStill(at); err == nil {
		t.Error("it is ready, and its partition stands still")
	}
	if _, _, known := a.waits.seen().ofSubscription(at); known {
		t.Error("what waits is said to be known")
	}
	for kind, want := range map[string]float64{"held": 2, api.KindUnread: 1} {
		if got := testutil.ToFloat64(a.waits.gauge.WithLabelValues(kind)); got != want {
			t.Errorf("the gauge says %v of %s", got, kind)
		}
	}
	list, err := a.waits.list(t.Context(), api.AttentionFilter{Limit: 20})
	if err != nil || len(list.Items) != 0 || len(list.Unknown) == 0 {
		t.Errorf("%+v %v", list, err)
	}
	a.waits.warn(a.waits.seen(), found) // it answers again
	if said.Len() > 0 {
		t.Errorf("it was said before: %s", said.String())
	}
}

// A part of a look that nobody answers takes no time from the others.
func TestAttentionPartsHaveTimesOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, l *look) {
			<-ctx.Done()
			l.unknown["held"] = context.Cause(ctx).Error()
		}
		answers := func(ctx context.Context, _ *look) {
			if ctx.Err() != nil {
				t.Error("no time is left for it")
			}
		}
		l := look{unknown: map[string]string{}}
		if l.take(t.Context(), silent, answers); len(l.unknown) != 1 {
			t.Error(l.unknown)
		}
	})
}

// Partitions of one topic that begin to wait together are one line in the log.
func TestPartitionsAreOneLineInTheLog(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	w := &attention{a: &App{log: slog.New(slog.NewTextHandler(&said, nil))}}
	var now, before look
	for _, topic := range []string{"t", "u"} {
		for n := range int32(3) {
			now.rows = append(now.rows, api.AttentionItem{Kind: api.KindUnread, ID: "acme.fulfil", Topic: topic, Partition: &n})
		}
	}
	before.rows = now.rows[3:5]
	w.warn(before, now)
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], "topic=t partitions=3") || !strings.HasSuffix(lines[1], "topic=u partition=2") {
		t.Error(said.String())
	}
}
