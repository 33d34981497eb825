package app

import (
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/sink"
)

// beta is a second team, beside acme of deploymentText.
const beta = `  beta:
    sources:
      cards: {preset: github, secrets: [beta-secret]}
    destinations:
      other: {type: log, timeout: 10s}
    subscriptions:
      risk: {sources: [cards], actions: [{name: a, to: other}]}
`

// waits checks which keys wait for a restart, as the list of what waits for an operator has them.
func (p *process) waits(why string, want ...string) {
	p.t.Helper()
	var keys []string
	if !rig.Until(time.Minute, func() bool { // the list may be a second old
		found, err := p.api.Attention(p.t.Context(), api.AttentionFilter{Kind: api.KindWaits, Limit: 100})
		if err != nil {
			p.t.Fatal(err)
		}
		keys = nil
		for _, i := range found.Items {
			keys = append(keys, i.Team+" "+i.ID)
		}
		return slices.Equal(keys, want)
	}) {
		p.t.Errorf("%q wait for a restart, want %q: %s", keys, want, why)
	}
}

// TestOneTeamsEditFreezesNobody: what one team changes and needs a restart keeps its value, for its own key, and is listed; a secret that another
// team has rotated is in force at once, and so is what the same team took out.
func TestOneTeamsEditFreezesNobody(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, false)
	r.text += beta
	r.createTopics()
	p := r.run(config.RoleIntake)
	_, d := issue(1, 1)
	p.accepted("github", "first-secret", d)
	r.text = strings.NewReplacer("preset: github, secrets: [beta-secret]", "preset: github, secrets: [beta-secret], topic: events.beta.payments", "timeout: 10s", "timeout: 20s",
		"[first-secret]", "[second-secret]", "session_timeout: 6s", "session_timeout: 7s").Replace(r.text)
	r.reload(p, config.RoleIntake)
	if got := p.send("github", "first-secret", d); got != http.StatusUnauthorized {
		t.Errorf("the secret that was rotated out is answered %d, want 401", got)
	}
	p.accepted("github", "second-secret", d)
	p.waits("destinations are nothing to an intake", " kafka.session_timeout", "beta teams.beta.sources.cards.topic")
	p.metric("forebay_attention_waiting", 2)
	differ, err := p.api.ConfigDiff(t.Context())
	if d := cmp.Diff([]api.ConfigDifference{{Path: "kafka.session_timeout", Running: "6s", File: "7s", Reason: "needs_restart"},
		{Team: "beta", Path: "teams.beta.sources.cards.topic", Running: "events.beta.cards", File: "events.beta.payments", Reason: "needs_restart"}}, differ.Items); d != "" {
		t.Errorf("%v %s", err, d)
	}
	if topic := p.app.file().Teams["beta"].Sources["cards"].Topic; topic != "events.beta.cards" {
		t.Errorf("beta's source has topic %s before a restart", topic)
	}
	if status, body := p.readyz(); status != http.StatusOK || !strings.Contains(body, "changed keys that wait for the next start: 2,") {
		t.Errorf("readyz: %d %s", status, body)
	}
	r.text = strings.Replace(r.text, "      orders:\n", "      orders2:\n", 1)
	r.text = strings.NewReplacer("[orders]", "[orders2]", "topic: events.beta.payments", "topic: events.beta.cards").Replace(r.text)
	r.reload(p, config.RoleIntake)
	if _, ok := p.app.intake.sources.find("acme", "orders"); ok {
		t.Error("a source that was taken out is still there")
	}
	p.waits("beta has taken its change back", " kafka.session_timeout")
	p.accepted("github", "second-secret", d)
	p.clean()
}

// callee is a destination that tells by which Authorization and path it is called.
type callee struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
}

func newCallee(t *testing.T, answer func(w http.ResponseWriter)) *callee {
	t.Helper()
	a := &callee{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.calls = append(a.calls, r.URL.Path+" "+r.Header.Get("Authorization"))
		a.mu.Unlock()
		if answer != nil {
			answer(w)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *callee) seen() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

// TestReloadOfWhatRuns: URL, headers, retry and timeout of a destination are in force for the attempts that begin; a subscription is
// filtered otherwise, goes, comes; and nobody else's is touched.
func TestReloadOfWhatRuns(t *testing.T) {
	t.Parallel()
	agent := newCallee(t, func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) })
	next := newCallee(t, nil)
	r := deploy(t, agent.URL, newLedger(t), false)
	r.text = strings.NewReplacer("retry: {min: 10ms, max: 100ms}", `headers: {Authorization: "Bearer one"}, retry: {min: 1h, max: 1h}`).Replace(r.text) + beta
	r.createTopics()
	roles := []config.Role{config.RoleIntake, config.RoleStream}
	p := r.run(roles...)
	other := p.app.stream.subs[nameInTeam{"beta", "risk"}]
	p.accepted("orders", "orders-secret", order("o", 1))
	until := func(what string, ok func() bool) {
		t.Helper()
		if !rig.Until(time.Minute, ok) {
			t.Fatalf("%s: not within a minute; %q %q", what, agent.seen(), next.seen())
		}
	}
	until("the first attempt", func() bool { return len(agent.seen()) == 1 })

	r.text = strings.NewReplacer(agent.URL, next.URL, "Bearer one", "Bearer two", "min: 1h, max: 1h", "min: 10ms, max: 10ms", "timeout: 10s", "timeout: 20s").Replace(r.text)
	r.reload(p, roles...)
	p.waits("all of it is in force")
	p.accepted("orders", "orders-secret", order("p", 1))
	until("an attempt at the new URL", func() bool { return slices.Contains(next.seen(), "/run Bearer two") })
	if status, body := p.readyz(); status != http.StatusOK {
		t.Errorf("not ready by a reload: %s", body)
	}
	if got := agent.seen(); len(got) != 1 {
		t.Errorf("the URL of before was called after the reload: %q", got)
	}

	// fulfil takes no such types any more; triage has another name, and begins anew.
	r.text = strings.NewReplacer("fulfil: {sources: [orders], begin: all,", "fulfil: {sources: [orders], types: [nothing.*], begin: all,", "triage: {", "sort: {").Replace(r.text)
	r.reload(p, roles...)
	at := func(name string) nameInTeam { return nameInTeam{"acme", name} }
	runs := func(name string) bool {
		s := p.app.stream
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.subs[at(name)] != nil && s.subs[at(name)].Ready() == nil && s.stops[at(name)] != nil && !s.again[at(name)]
	}
	until("the new subscription runs, and the other again", func() bool { return runs("sort") && runs("fulfil") })
	until("the one that is gone has ended", func() bool {
		s := p.app.stream
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.subs[at("triage")] == nil && s.stops[at("triage")] == nil
	})
	until("its gauge is gone", func() bool { return testutil.CollectAndCount(p.app.stream.pauses.paused) == 3 })
	calls := len(next.seen())
	p.accepted("orders", "orders-secret", order("q", 1))
	_, d := issue(7, 1)
	p.accepted("github", "first-secret", d)
	until("the new subscription's action", func() bool { return len(next.seen()) > calls })
	until("what is not wanted is filtered", func() bool {
		page, err := p.api.Items(t.Context(), api.InboxFilter{Subscription: "fulfil", Entity: "q", Limit: 10})
		return err == nil && len(page.Items) == 1 && page.Items[0].Decision == "filtered"
	})
	if got := p.app.stream.subs[nameInTeam{"beta", "risk"}]; got != other {
		t.Error("beta's subscription was started again by what acme has changed")
	}
	if status, body := p.readyz(); status != http.StatusOK || strings.Contains(body, "triage") {
		t.Errorf("readyz: %d %s", status, body)
	}
	p.clean()
}

// TestMovedActionKeepsItsParams: what is open for a destination that the action's `to:` names no more goes there with the action's own parameters, and
// waits where those are not for it.
func TestMovedActionKeepsItsParams(t *testing.T) {
	t.Parallel()
	var fine atomic.Bool
	bodies := make(chan string, 1000)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- r.URL.Path + " " + string(body)
		if !fine.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(agent.Close)
	r := deploy(t, agent.URL, newLedger(t), false)
	const run = `[{name: run, to: agent, params: {body: "of {{event.id}}"}}]`
	r.text = strings.NewReplacer("then: park}, actions: [{name: run, to: agent}]", "then: park}, actions: "+run, "retry: {min: 10ms, max: 100ms}", "retry: {attempts: 50, min: 100ms, max: 1s}",
		"    destinations:\n", "    destinations:\n      other: {type: http, url: \""+agent.URL+"/other\", allow_networks: [127.0.0.0/8]}\n      chat: {type: slack, token: xoxb-1, params: {channel: C0123456789}}\n").Replace(r.text)
	r.createTopics()
	roles := []config.Role{config.RoleIntake, config.RoleStream}
	p := r.run(roles...)
	p.accepted("orders", "orders-secret", order("o", 1))
	next := func() string {
		t.Helper()
		select {
		case b := <-bodies:
			return b
		case <-time.After(time.Minute):
			t.Fatal("no call within a minute")
			return ""
		}
	}
	if b := next(); b != "/run of o-1" {
		t.Fatalf("sent %q", b)
	}
	whole := r.text
	move := func(to string) {
		t.Helper()
		r.text = strings.Replace(whole, run, to, 1)
		r.reload(p, roles...)
		p.ready()
	}
	move(`[{name: run, to: chat, params: {text: "of {{event.id}}"}}]`)
	if !rig.Until(time.Minute, func() bool {
		refused, _ := counted(t, p.app.registry, "forebay_lane_verdicts_total", map[string]string{"status": "error"})
		return refused > 0
	}) {
		t.Error("what was open goes on with other parameters than its own")
	}
	move(`[{name: run, to: other, params: {body: "later of {{event.id}}"}}]`)
	fine.Store(true)
	p.item("fulfil", "orders", "o-1", "applied", "done")
	p.accepted("orders", "orders-secret", order("p", 1))
	p.item("fulfil", "orders", "p-1", "applied", "done")
	for len(bodies) > 1 {
		if b := next(); b != "/run of o-1" && b != "/run later of o-1" {
			t.Errorf("sent %q", b)
		}
	}
	if b := next(); b != "/other later of p-1" {
		t.Errorf("at last sent %q", b)
	}
	p.clean()
}

// TestMovedActionIsReadInTheCurrentFile: where an action has gone elsewhere, and is edited there, the destination that it left is not made anew, and gives
// what is open what the file has now. What is for that destination has its parameters from the destination as it was made.
func TestMovedActionIsReadInTheCurrentFile(t *testing.T) {
	t.Setenv("NEW", "secret")
	load := func(to, body string) *config.Config {
		r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", "postgres: {url: \"postgres://127.0.0.1:1/none\"}", "http://127.0.0.1:1")}
		r.text = strings.NewReplacer("then: park}, actions: [{name: run, to: agent}]", "then: park}, actions: [{name: run, to: "+to+", params: {body: "+body+"}}]",
			"    destinations:\n", "    destinations:\n      other: {type: http, url: \"http://127.0.0.1:1\", allow_networks: [127.0.0.0/8]}\n").Replace(r.text)
		return r.load(config.RoleStream)
	}
	before, now := load("other", "first"), load("other", "second")
	was, _ := before.Destination("acme", "agent")
	is, _ := now.Destination("acme", "agent")
	if !sameDestination(before, was, now, is) {
		t.Error("another destination's parameters have it made anew")
	}
	params, err := paramsOf(before, was, func() *config.Config { return now })
	if err != nil {
		t.Fatal(err)
	}
	render := func() any {
		t.Helper()
		got, err := params.Render(sink.Action{Name: "run", Subscription: "acme.fulfil", Destination: "acme/agent", Event: &schemas.Event{}})
		if err != nil {
			t.Error(err)
		}
		return got["body"]
	}
	if got := render(); got != "second" {
		t.Errorf("an action that has gone elsewhere has body %v", got)
	}
	now = load("agent", "\"${env:NEW}\"")
	if got := render(); got != nil {
		t.Errorf("an action of this destination has body %v, of the file that is not in force for it", got)
	}
}

// TestReloadThatFailsLeavesNothing: what was made before the failure is given up, so that the next reload can make it again.
func TestReloadThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", newLedger(t), true)
	p := r.run(config.RoleIntake, config.RoleStream)
	r.text = strings.Replace(r.text, "    destinations:\n", "    destinations:\n      first: {type: log}\n      second: {type: log}\n", 1)
	whole := r.text

	taken := &registered{to: p.app.registry} // the second fails, when the first is made
	if _, err := destination.New(destination.Config{Name: "acme/second", Registerer: taken}); err != nil {
		t.Fatal(err)
	}
	if err := p.app.Reload(r.load(config.RoleIntake, config.RoleStream)); err == nil {
		t.Error("a destination that cannot be made is reloaded")
	}
	taken.remove()

	authority := httptest.NewTLSServer(nil) // its certificate is gone when the intake wants it, after both were made
	defer authority.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	r.text = strings.Replace(whole, "preset: generic", "preset: generic\n        first_filter: {redis: {url: 'rediss://127.0.0.1:1', "+
		"ca_file: '"+ca+"'}}", 1)
	lacks := r.load(config.RoleIntake, config.RoleStream)
	if err := os.Remove(ca); err != nil {
		t.Fatal(err)
	}
	if err := p.app.Reload(lacks); err == nil {
		t.Error("a filter that cannot be made is reloaded")
	}

	r.text = whole
	r.reload(p, config.RoleIntake, config.RoleStream)
	p.clean()
}

// TestNothingIsReplacedByTheSame: of a file with every type of destination and every key, read again as it was, no destination and no subscription is
// another; and of another timeout, only that destination.
func TestNothingIsReplacedByTheSame(t *testing.T) {
	t.Parallel()
	load := func() *config.Config {
		t.Helper()
		c, err := config.Load(config.Options{Path: "../config/testdata/reference/forebay.yaml", Lookup: func(name string) (string, bool) {
			for part, value := range map[string]string{"POSTGRES_URL": "postgres://forebay@postgres/" + name, "WAREHOUSE_URL": "postgres://forebay:password@10.0.0.9:5432/warehouse",
				"ORDERS_SECRET": "6f7264657273", "CODER_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "HOOKS_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
				"BUILDS_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "AGENTS_SECRET": "0123456789abcdef0123456789abcdef", "ROUTING_KEY": "0123456789abcdef0123456789abcdef"} {
				if strings.HasSuffix(name, part) {
					return value, true
				}
			}
			return name, true
		}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before, now := load(), load()
	if taken, waits := before.Take(now, config.Taking{}); len(waits) > 0 {
		t.Errorf("%v wait", waits)
	} else {
		now = taken
	}
	is, types := now.AllDestinations(), map[string]bool{}
	for i, was := range before.AllDestinations() {
		if types[was.Type] = true; !sameDestination(before, was, now, is[i]) {
			t.Errorf("%s is replaced", was.FullName())
		}
		other := *is[i].Destination
		other.Timeout++
		is[i].Destination = &other
		if sameDestination(before, was, now, is[i]) {
			t.Errorf("%s is not replaced although its timeout is another", was.FullName())
		}
	}
	if len(types) < 9 {
		t.Errorf("only %d types of destinations", len(types))
	}
	subscriptions := configured(before).subscriptions
	if len(subscriptions) == 0 {
		t.Error("the file has no subscription")
	}
	same := sameSubscriptions(before, now, nil)
	for _, n := range subscriptions {
		if !same(nameInTeam{n.Team, n.Name}) {
			t.Errorf("%s.%s begins again", n.Team, n.Name)
		}
	}
	of := subscriptions[0]
	now.Teams[of.Team].Destinations["more"] = &config.Destination{}
	if sameSubscriptions(before, now, nil)(nameInTeam{of.Team, of.Name}) {
		t.Errorf("%s.%s goes on without a destination that open actions may be for", of.Team, of.Name)
	}
}

// TestReloadWhilePostgresIsAway: a process that still waits for Postgres is not held up by a subscription that the file has lost meanwhile.
func TestReloadWhilePostgresIsAway(t *testing.T) {
	t.Parallel()
	postgres, through := newLedger(t).through(t)
	r := deploy(t, "http://127.0.0.1:1", through, true)
	postgres.HangAll()
	p := r.start(config.RoleStream)
	if status, body := p.readyz(); status != http.StatusServiceUnavailable || !strings.Contains(body, "triage") {
		t.Fatalf("readyz: %d %s", status, body)
	}
	r.text = strings.Replace(r.text, "triage: {", "sort: {", 1)
	r.reload(p, config.RoleStream)
	if _, body := p.readyz(); strings.Contains(body, "triage") {
		t.Errorf("readyz: %s", body)
	}
	postgres.Answer()
	p.ready()
	if _, body := p.readyz(); strings.Contains(body, "triage") || !strings.Contains(body, "sort") {
		t.Errorf("readyz: %s", body)
	}
	p.clean()
}

// TestNewDestinationStopsNobody: a destination that every team may use from now on, and that nothing is for, has no subscription begin again; one that
// an action has waited for has its subscription do so, and no other.
func TestNewDestinationStopsNobody(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", newLedger(t), false)
	without := r.text + beta
	with := strings.Replace(without, "    destinations:\n      agent:", "    destinations:\n      spare: {type: log}\n      agent:", 1)
	r.text = strings.Replace(with, "then: park}, actions: [{name: run, to: agent}]", "then: park}, actions: [{name: run, to: spare}]", 1)
	r.createTopics()
	roles := []config.Role{config.RoleIntake, config.RoleStream}
	p := r.run(roles...)
	if _, err := p.api.Pause(t.Context(), "acme", "spare", api.PauseRequest{By: "ann", Reason: "it goes"}); err != nil {
		t.Fatal(err)
	}
	spare := func(what string, is func(state string, waiting int) bool) {
		t.Helper()
		if !rig.Until(time.Minute, func() bool {
			items := (destinationsAPI{p.app.stream}).items(p.app.stream.waiting())
			i := slices.IndexFunc(items, func(i api.DestinationItem) bool { return i.Destination == "spare" })
			return i >= 0 && is(items[i].State, items[i].Waiting)
		}) {
			t.Fatal(what)
		}
	}
	p.accepted("orders", "orders-secret", order("o", 1))
	spare("it waits for none", func(_ string, waiting int) bool { return waiting == 1 })
	begun := map[nameInTeam]*stream.Subscription{}
	begins := func(what string, again ...string) { // that these have begun again since it was asked last, and no others
		t.Helper()
		s := p.app.stream
		var now map[nameInTeam]*stream.Subscription
		if !rig.Until(time.Minute, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			now = maps.Clone(s.subs)
			return len(now) == 3 && !slices.ContainsFunc(again, func(name string) bool {
				at := nameInTeam{"acme", name}
				return s.again[at] || now[at] == begun[at] || now[at].Ready() != nil
			})
		}) {
			t.Fatalf("%s: %q have not begun again", what, again)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for at, sub := range now {
			if !slices.Contains(again, at.name) && begun[at] != nil && (sub != begun[at] || s.again[at]) {
				t.Errorf("%s: %v has begun again", what, at)
			}
		}
		begun = now
	}
	begins("the first time", "fulfil", "triage")
	r.text = without
	r.reload(p, roles...)
	begins("one of the team's own is gone", "fulfil", "triage")
	spare("what is open for it is forgotten", func(state string, _ int) bool { return state == api.DestinationMissing })
	const pagers = "destinations: {pagers: {type: log, teams: [\"*\"]}}\nteams:\n"
	r.text = strings.Replace(without, "teams:\n", pagers, 1)
	r.reload(p, roles...)
	begins("one that nothing is for")
	r.text = strings.Replace(with, "teams:\n", pagers, 1)
	r.reload(p, roles...)
	begins("one that an action has waited for", "fulfil")
	spare("it is missing still", func(state string, _ int) bool { return state != api.DestinationMissing })
	p.clean()
}
