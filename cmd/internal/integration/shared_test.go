package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// twoTeams adds a second team to a deployment, and a destination that both share: pagers. Each team sends its orders there; the first
// one has as many subscriptions for it as are asked for.
type twoTeams struct {
	*deployment
	other       string  // the second team
	otherSender *sender // its provider
}

// shareDestination makes the deployment of two teams. settings are further keys of the shared destination.
func shareDestination(t *testing.T, b rig.Broker, subscriptions int, settings string) *twoTeams {
	t.Helper()
	r := &twoTeams{deployment: deploy(t, b, options{})}
	r.other = r.team + "-b"
	more := ""
	for i := range subscriptions - 1 {
		more += fmt.Sprintf("      again-%d: {sources: [orders], begin: all, actions: [{name: page, to: pagers}]}\n", i)
	}
	const source = `        preset: generic
        secrets: ["${env:ORDERS_SECRET}"]
        verify: {algorithm: sha256, signature_header: X-Signature, prefix: "sha256=", encoding: hex, signed: "{body}"}
        event: {id: header:X-Event-Id, type: /type, entity: [/order/id], version: {from: /order/rev, kind: sequence}, payload: snapshot}
`
	r.edit("actions: [{name: run, to: shop}]\n", "actions: [{name: run, to: pagers}]\n"+more+"  "+r.other+`:
    sources:
      orders:
`+source+`    subscriptions:
      fulfil: {sources: [orders], begin: all, actions: [{name: run, to: pagers}]}
`)
	r.edit("teams:\n  "+r.team+":\n", fmt.Sprintf(`destinations:
  pagers:
    type: http
    url: "%s/pagers"
    teams: [%s, %s]
    retry: {attempts: 1000, within: 10m, min: 50ms, max: 500ms}
    recovery: 0s
    allow_networks: [127.0.0.0/8]
    %s
teams:
  %s:
`, r.agent.URL, r.team, r.other, settings, r.team))
	r.command("topics", "apply", "-c", r.config)
	r.otherSender = newSender(t, r.other, func() string { return r.intake.Load().intake })
	r.sender.once, r.otherSender.once = true, true
	return r
}

// orders are the first revisions of n orders whose names begin with a word.
func orders(word string, n int) [][]delivery {
	return lines(n, 1, func(entity, rev int) delivery { return order(fmt.Sprintf("%s-%d", word, entity), rev) })
}

// isOf reports whether a call is for an event of a team.
func (c call) isOf(team string) bool { return strings.HasPrefix(c.source, "/"+team+"/") }

func countOf(calls []call, team string) (n int) {
	for _, c := range calls {
		n += btoi(c.isOf(team))
	}
	return n
}

// place is a destination as `forebay destinations get` shows it.
type place struct {
	Team, Destination, State, Breaker string
	Teams                             []string
	Waiting                           int
}

// place asks a process for a destination.
func (r *deployment) place(p *process, name string) (d place) {
	r.t.Helper()
	if err := p.get("/v1/destinations/"+name, nil, &d); err != nil {
		r.t.Fatal(err)
	}
	return d
}

// metric returns a metric of a process by the line's beginning.
func (p *process) metric(line string) string {
	p.t.Helper()
	resp, err := http.Get("http://" + p.operator + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	for l := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(l, line+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestTeamsTakeTurnsAtASharedDestination floods a destination that takes fifty calls a second with 300 deliveries of one team, in three
// subscriptions of it. What another team sends then gets every second call, and both together no more than the rate. A pause has all
// that is sent wait at one moment, however slow the machine takes it in.
func TestTeamsTakeTurnsAtASharedDestination(t *testing.T) {
	t.Parallel()
	const flood, few, rate, burst = 300, 20, 50, 5
	r := shareDestination(t, rig.Fake(t), 3, fmt.Sprintf("rate: {limit: %d, burst: %d}", rate, burst))
	p := r.serve("intake,stream")
	if err := r.sender.load(t.Context(), orders("flood", flood), 32, 0); err != nil {
		t.Fatal(err)
	}
	if !rig.Until(time.Minute, func() bool { return len(r.agent.snapshot()) >= 100 }) {
		t.Fatal("the flood is not worked on")
	}
	r.ask(p, "destinations", "pause", "pagers", "--reason", "test")
	if err := r.otherSender.load(t.Context(), orders("few", few), few, 0); err != nil {
		t.Fatal(err)
	}
	waitItems(t, r.deployment, p, few, "--team", r.other)
	resumed := time.Now()
	r.ask(p, "destinations", "resume", "pagers", "--reason", "test")
	if !rig.Until(time.Minute, func() bool { return countOf(r.agent.snapshot(), r.other) >= few }) {
		t.Fatalf("%d of %d calls for the other team", countOf(r.agent.snapshot(), r.other), few)
	}
	calls := r.agent.snapshot()
	first, last := -1, 0
	for i, c := range calls {
		if c.isOf(r.other) {
			if last = i; first < 0 {
				first = i
			}
		}
	}
	between := countOf(calls[first:last], r.team)
	t.Logf("%d calls of the flood before, %d between the other team's %d, the last of which came %s after the pause",
		countOf(calls[:first], r.team), between, few, calls[last].begin.Sub(resumed).Round(time.Millisecond))
	if between > few+few/2 {
		t.Errorf("between the %d calls of one team were %d of the flood: they took no turns", few, between)
	}
	if left := 3*flood - countOf(calls, r.team); left < few {
		t.Errorf("only %d actions of the flood were left: there was nothing to wait behind", left)
	}
	// All together, since a machine that stood still lets calls catch up; the first may have been on its way for as long.
	if took := calls[len(calls)-1].begin.Sub(calls[0].begin) + 2*time.Second; float64(len(calls)) > rate*took.Seconds()+burst {
		t.Errorf("%d calls in %s", len(calls), took)
	}
}

// TestSharedDestinationHasOneBreaker: what one team's calls have found out holds for the other's, and so does an operator's pause.
func TestSharedDestinationHasOneBreaker(t *testing.T) {
	t.Parallel()
	const each = 20
	r := shareDestination(t, rig.Fake(t), 1, "breaker: {wait: 60s, max_wait: 60s, floor: 1}")
	var back atomic.Bool
	r.agent.answers(http.StatusBadGateway, func(call) bool { return !back.Load() })
	p := r.serve("intake,stream")
	if err := r.sender.load(t.Context(), orders("o", each), 8, 0); err != nil {
		t.Fatal(err)
	}
	if !rig.Until(time.Minute, func() bool { return r.place(p, "pagers").State == "open" }) {
		t.Fatalf("the breaker does not open: %+v", r.place(p, "pagers"))
	}
	before, since := len(r.agent.snapshot()), time.Now()
	if err := r.otherSender.load(t.Context(), orders("o", each), 8, 0); err != nil {
		t.Fatal(err)
	}
	if !rig.Until(time.Minute, func() bool { return r.place(p, "pagers").Waiting == 2*each }) {
		t.Errorf("%+v, want %d waiting of both teams", r.place(p, "pagers"), 2*each)
	}
	until(t, "behind an open breaker, the team that came later has its turn", func() bool { return countOf(r.agent.snapshot()[before:], r.other) > 0 })
	if calls, most := len(r.agent.snapshot())-before, int(time.Since(since).Seconds())+10; calls > most {
		t.Errorf("behind an open breaker %d calls, want %d at most: one a second", calls, most)
	}
	const opened = `forebay_destination_breaker_transitions_total{destination="pagers",to="open"}`
	if n := p.metric(opened); n != "1" {
		t.Errorf("%s is %s", opened, n)
	}

	r.ask(p, "destinations", "pause", "pagers", "--reason", "they move")
	if d := r.place(p, "pagers"); d.State != "paused" || d.Team != "" || strings.Join(d.Teams, " ") != r.team+" "+r.other {
		t.Errorf("%+v", d)
	}
	<-time.After(time.Second) // an attempt may have been under way
	back.Store(true)
	before = len(r.agent.snapshot())
	<-time.After(1500 * time.Millisecond) // the breaker lets one a second through
	if n := len(r.agent.snapshot()) - before; n > 0 {
		t.Errorf("%d calls although it is paused", n)
	}
	r.ask(p, "destinations", "resume", "pagers", "--reason", "they have moved")
	waitItems(t, r.deployment, p, each, "--team", r.team, "--status", "done")
	waitItems(t, r.deployment, p, each, "--team", r.other, "--status", "done")
	out := r.ask(p, "destinations", "list", "-o", "id")
	if want := "pagers\n" + r.team + "/agent\n" + r.team + "/shop\n"; string(out) != want {
		t.Errorf("listed\n%swant\n%s", out, want)
	}
}

// TestSharedDestinationHasOneHold: what one team's action was told by a Retry-After holds for the other's, which go on behind it.
func TestSharedDestinationHasOneHold(t *testing.T) {
	t.Parallel()
	const few, hold = 5, 8 * time.Second
	r := shareDestination(t, rig.Fake(t), 1, "max_hold: 8s")
	head := order("head", 1)
	r.agent.answers(http.StatusTooManyRequests, func(c call) bool { return c.event == head.id && r.agent.seen(head.id) == 1 })
	r.agent.reply = func(_ call, status int, h http.Header) string {
		if status != http.StatusOK {
			h.Set("Retry-After", "86400")
		}
		return ""
	}
	p := r.serve("intake,stream")
	r.deliver(head)
	r.agent.waitActed(t, 1, time.Minute)
	told := r.agent.snapshot()[0].end
	until(t, "the destination is held", func() bool { return r.place(p, "pagers").State == "held" })
	if err := r.otherSender.load(t.Context(), orders("few", few), few, 0); err != nil {
		t.Fatal(err)
	}
	waitItems(t, r.deployment, p, 1, "--team", r.team, "--status", "done")
	waitItems(t, r.deployment, p, few, "--team", r.other, "--status", "done")
	calls := r.agent.snapshot()
	for _, c := range calls[1:] {
		if wait := c.begin.Sub(told); wait < hold-100*time.Millisecond { // the answer was on its way
			t.Errorf("%s of %s was called %s after the answer, before the %s were over", c.event, c.source, wait, hold)
		}
	}
	if len(calls) != 2+few || countOf(calls, r.other) != few {
		t.Errorf("%d calls, %d of them for the other team; want %d and %d", len(calls), countOf(calls, r.other), 2+few, few)
	}
	const holds = `forebay_destination_holds_total{destination="pagers"}`
	if n := p.metric(holds); n != "1" {
		t.Errorf("%s is %s", holds, n)
	}
}

// TestOpenActionsFollowToASharedDestination moves a team's destination to the top of the file, with actions open, as an operator does it,
// and back again. A team that may not use it any more is told so.
func TestOpenActionsFollowToASharedDestination(t *testing.T) {
	t.Parallel()
	const n = 5
	r := shareDestination(t, rig.Fake(t), 1, "")
	r.edit("to: pagers", "to: shop") // the first team's own
	if out, err := r.try("127.0.0.1:0", "config", "check", "-c", r.config); err == nil || !strings.Contains(string(out)+err.Error(), "the team has no destination \"shop\"") {
		t.Fatalf("%s %v", out, err)
	}
	r.edit("  "+r.other+":\n    sources:", "  "+r.other+":\n    destinations: {shop: {type: log}}\n    sources:")
	r.agent.answer = func(c call) int {
		switch {
		case c.path != "/gone":
			return http.StatusOK
		case c.entity == "own-1":
			return http.StatusBadRequest // a dead letter
		}
		return http.StatusBadGateway
	}
	r.edit(`shop: {type: http, url: "`+r.agent.URL+`/run"`, `shop: {type: http, url: "`+r.agent.URL+`/gone"`)
	p := r.serve("intake,stream")
	if err := r.sender.load(t.Context(), orders("own", n), n, 0); err != nil {
		t.Fatal(err)
	}
	waitItems(t, r.deployment, p, 1, "--team", r.team, "--status", "dead_letter")
	if !rig.Until(time.Minute, func() bool { return len(r.agent.snapshot()) >= n }) {
		t.Fatal("the team's own destination was not called")
	}
	p.stop()

	// Shared now, at another place.
	r.edit("      shop: {type: http", "      shop-of-before: {type: http")
	r.edit("  pagers:\n", "  shop:\n")
	r.edit("destinations: {shop: {type: log}}", "destinations: {}")
	r.command("config", "check", "-c", r.config)
	p = r.serve("intake,stream")
	waitItems(t, r.deployment, p, n-1, "--team", r.team, "--status", "done")
	r.ask(p, "dlq", "replay", "--destination", r.team+"/shop", "--reason", "shared now")
	waitItems(t, r.deployment, p, n, "--team", r.team, "--status", "done")
	for _, c := range r.agent.snapshot() {
		if c.status == http.StatusOK && c.path != "/pagers" {
			t.Errorf("%+v was not called where the shared destination is", c)
		}
	}
	if _, err := r.try(p.operator, "destinations", "resume", r.team+"/shop", "--reason", "x"); err == nil || !strings.Contains(err.Error(), "it is shared, and called shop") {
		t.Errorf("by its name of before: %v", err)
	}

	// The first team has its own again, and with it the actions that are open at the shared one.
	r.ask(p, "destinations", "pause", "shop", "--reason", "test")
	if err := r.sender.load(t.Context(), orders("shared", n), n, 0); err != nil {
		t.Fatal(err)
	}
	if !rig.Until(time.Minute, func() bool { return r.place(p, "shop").Waiting == n }) {
		t.Fatalf("%+v", r.place(p, "shop"))
	}
	p.stop()
	r.edit("teams: ["+r.team+", "+r.other+"]", "teams: ["+r.other+"]")
	if out, err := r.try("127.0.0.1:0", "config", "check", "-c", r.config); err == nil || !strings.Contains(string(out)+err.Error(), "add "+r.team+" to destinations.shop.teams ("+r.config+":") {
		t.Errorf("%s %v", out, err)
	}
	r.edit("      shop-of-before: {type: http", "      shop: {type: http")
	r.edit("/gone", "/own-again")
	r.command("config", "check", "-c", r.config)
	p = r.serve("intake,stream")
	waitItems(t, r.deployment, p, 2*n, "--team", r.team, "--status", "done")
	own := 0
	for _, c := range r.agent.snapshot() {
		own += btoi(c.path == "/own-again")
	}
	if own != n {
		t.Errorf("%d calls where the team's own destination is, want %d", own, n)
	}
	if d := r.place(p, "shop"); d.State != "paused" {
		t.Errorf("the pause of the shared destination: %+v", d)
	}
	judge(r.sender.acceptedByID(), okCalls(r.agent.snapshot())).require(t)
}

// TestActionsWithoutADestinationSayWhatToDo takes a destination out of the file while actions for it are open, and goes by what they say.
func TestActionsWithoutADestinationSayWhatToDo(t *testing.T) {
	t.Parallel()
	const n = 3
	r := shareDestination(t, rig.Fake(t), 1, "")
	p := r.serve("intake,stream")
	r.ask(p, "destinations", "pause", "pagers", "--reason", "test")
	if err := r.otherSender.load(t.Context(), orders("o", n), n, 0); err != nil {
		t.Fatal(err)
	}
	if !rig.Until(time.Minute, func() bool { return r.place(p, "pagers").Waiting == n }) {
		t.Fatalf("%+v", r.place(p, "pagers"))
	}
	p.stop()
	with := "teams: [" + r.team + ", " + r.other + "]"
	without := "teams: [" + r.team + "]"
	to := "fulfil: {sources: [orders], begin: all, actions: [{name: run, to: pagers}]}"
	away := "fulfil: {sources: [orders], begin: all, actions: [{name: run, to: console}]}"
	r.edit(with, without)
	r.edit(to, away)
	r.edit("destinations:\n  pagers:\n", "destinations:\n  console: {type: log, teams: [\"*\"]}\n  pagers:\n")
	p = r.serve("intake,stream")
	said := "the file has no destination pagers that team " + r.other + " may use: write it there again, and replay"
	if !rig.Until(time.Minute, func() bool {
		out := r.ask(p, "inbox", "get", r.other+"/fulfil/orders/o-1-1")
		return strings.Contains(string(out), said)
	}) {
		t.Fatalf("no %q in\n%s", said, r.ask(p, "inbox", "get", r.other+"/fulfil/orders/o-1-1"))
	}
	p.stop()
	r.edit(without, with)
	p = r.serve("intake,stream")
	r.ask(p, "destinations", "resume", "pagers", "--reason", "test")
	waitItems(t, r.deployment, p, n, "--team", r.other, "--status", "done")
	if got := len(r.agent.snapshot()); got != n {
		t.Errorf("%d calls, want %d", got, n)
	}
}

// okCalls are the calls that were answered 200.
func okCalls(calls []call) (ok []call) {
	for _, c := range calls {
		if c.status == http.StatusOK {
			ok = append(ok, c)
		}
	}
	return ok
}

// ask runs a command against a process.
func (r *deployment) ask(p *process, args ...string) []byte {
	r.t.Helper()
	out, err := r.try(p.operator, args...)
	if err != nil {
		r.t.Fatalf("forebay %s: %v", strings.Join(args, " "), err)
	}
	return out
}
