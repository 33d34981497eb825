package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// deployTwoLedgers is a deployment whose subscription billing reads what triage reads, and keeps its ledger in a database of its own, where it
// also executes a statement for each event.
func deployTwoLedgers(t *testing.T) (r *deployment, billingDB string) {
	t.Helper()
	r, billingDB = deploy(t, rig.Fake(t), options{}), rig.Database(t)
	r.edit("session_timeout: 6s", "session_timeout: 40s") // nobody is killed
	const long = "long: {deadline: 5m}, "
	r.edit(`listen: {intake: "${env:INTAKE}",`, `agents: {public_url: "http://agents.test", secrets: ["a secret that every process of the deployment has"]}
listen: {agents: "${env:AGENTS}", intake: "${env:INTAKE}",`)
	r.edit(`postgres: {url: "${env:FOREBAY_POSTGRES_URL}"}`, `postgres: {url: "${env:FOREBAY_POSTGRES_URL}", statements: true}`)
	r.edit("      agent: {type: http,", `      book: {type: postgres, statement: "INSERT INTO booked VALUES ($1)", params: {values: ["{{event.id}}"]}}`+"\n      billing: {type: http, "+long+`url: "`+r.agent.URL+`/billing", allow_networks: [127.0.0.0/8]}`+"\n      agent: {type: http, "+long)
	r.edit("    subscriptions:\n", `    subscriptions:
      billing: {sources: [github], begin: all, postgres: {url: "${env:BILLING_POSTGRES_URL}"}, actions: [{name: book, to: book}, {name: run, to: billing}]}
`)
	r.agent.answer = func(c call) int {
		if strings.HasSuffix(c.entity, "/99") { // it says later what came of it
			return http.StatusAccepted
		}
		return http.StatusOK
	}
	r.variables = append(r.variables, "BILLING_POSTGRES_URL="+billingDB)
	sqlAnswer(t, billingDB, `CREATE TABLE booked (event text PRIMARY KEY)`)
	var migrated struct {
		Items []struct{ Migration, Ledger string }
	}
	if err := json.Unmarshal(r.command("migrate", "-c", r.config, "-o", "json"), &migrated); err != nil || len(migrated.Items) == 0 ||
		migrated.Items[0].Ledger != "teams."+r.team+".subscriptions.billing.postgres" {
		t.Fatalf("migrate: %+v, %v", migrated, err)
	}
	return r, billingDB
}

// only starts the process that runs one subscription.
func (r *deployment) only(subscription string) *process {
	r.t.Helper()
	p := r.launch("serve", "-c", r.config, "--roles", "stream", "--subscriptions", r.team+"."+subscription)
	p.waitReady(time.Minute)
	return p
}

// acts returns how often each action was asked for on a path of the agent, by its idempotency key.
func (r *deployment) acts(path string) map[string]int {
	keys := map[string]int{}
	for _, c := range r.agent.snapshot() {
		if c.path == path {
			keys[c.key]++
		}
	}
	return keys
}

// waitActs waits until n actions were asked for on a path, and fails if one was twice.
func (r *deployment) waitActs(path string, n int) {
	r.t.Helper()
	if !rig.Until(time.Minute, func() bool { return len(r.acts(path)) >= n }) {
		r.t.Fatalf("%s: %d actions, want %d", path, len(r.acts(path)), n)
	}
	for key, times := range r.acts(path) {
		if times != 1 {
			r.t.Errorf("%s: %s was asked for %d times", path, key, times)
		}
	}
}

// sqlAnswer executes a statement in a database, and returns the first value of its answer; empty if it has none.
func sqlAnswer(t *testing.T, database, statement string) (answer string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	results, err := db.PgConn().Exec(t.Context(), statement).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		for _, row := range r.Rows {
			return string(row[0])
		}
	}
	return ""
}

// connections lets a database take connections, or not, and ends those that it has.
func connections(t *testing.T, database string, allowed bool) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	server, name := os.Getenv("TEST_DATABASE_URL"), strings.TrimPrefix(u.Path, "/")
	sqlAnswer(t, server, fmt.Sprintf(`ALTER DATABASE %s ALLOW_CONNECTIONS %v`, pgx.Identifier{name}.Sanitize(), allowed))
	sqlAnswer(t, server, fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'`, name))
}

// TestTwoLedgers: two subscriptions of one topic have ledgers in two databases, and a process each. Each acts once; each answers for its own
// ledger alone, and takes no result of the other's; the database of one being away leaves the other at work; and moved to the other ledger,
// a subscription stops with a report in the place of running again what it has run.
func TestTwoLedgers(t *testing.T) {
	t.Parallel()
	r, billingDB := deployTwoLedgers(t)
	r.command("tokens", "create", "of-billing", "--role", "viewer", "--all-teams", "--reason", "its process", "-c", r.config, "--subscriptions", r.team+".billing")
	if a, b := sqlAnswer(t, r.dbURL, `SELECT count(*) FROM forebay.tokens`), sqlAnswer(t, billingDB, `SELECT count(*) FROM forebay.tokens`); a != "0" || b != "1" {
		t.Errorf("the token is in the ledgers %s and %s times, want 0 and 1", a, b)
	}
	main, billing := r.serve("intake,stream"), r.only("billing")
	r.deliverAll(5, 1, issues)
	r.waitActs("/run", 5)
	r.waitActs("/billing", 5)
	r.questionsOfTwoLedgers(main, billing)
	r.resultsOfTwoLedgers(main, billing)

	connections(t, billingDB, false)
	r.deliverAll(5, 2, issues)
	r.waitActs("/run", 11)
	main.waitReady(time.Minute)
	until(t, "the process without its ledger is not ready", func() bool {
		resp, err := http.Get("http://" + billing.operator + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(body), "ledger")
	})
	if n := len(r.acts("/billing")); n != 6 {
		t.Errorf("without its ledger billing has acted %d times, want 6", n)
	}
	connections(t, billingDB, true)
	r.waitActs("/billing", 11)
	if booked := sqlAnswer(t, billingDB, `SELECT count(*) FROM booked`); booked != "11" {
		t.Errorf("in its ledger's database %s statements took effect, want 11", booked)
	}

	billing.stop()
	main.stop()
	r.edit(`postgres: {url: "${env:BILLING_POSTGRES_URL}"}, `, "")
	moved := r.serve("stream")
	for _, stop := range r.waitStopped(moved, "billing", 6) {
		if stop.Kind != "ledger_behind" {
			t.Errorf("moved to another ledger it is stopped as %+v", stop)
		}
	}
	r.waitActs("/run", 11)
	r.waitActs("/billing", 11)
}

// questionsOfTwoLedgers asks each process about both subscriptions.
func (r *deployment) questionsOfTwoLedgers(main, billing *process) {
	r.t.Helper()
	own, other := r.team+".billing", r.team+".triage"
	if items := r.inbox(billing, "--subscription", own); len(items) != 5 {
		r.t.Errorf("the process of billing knows of %d events, want 5", len(items))
	}
	for _, args := range [][]string{{"inbox", "list", "--subscription"}, {"subscriptions", "get"}, {"subscriptions", "pause", "--reason", "x"}} {
		for p, name := range map[*process]string{main: own, billing: other} {
			if out, err := r.try(p.operator, append(args, name)...); err == nil || !containsAll(err.Error(), "exit status 6: ", "the ledger of "+name+" is not this process's: ask the process that runs it") {
				r.t.Errorf("%v %s: %s, %v", args, name, out, err)
			}
		}
	}
	var page struct {
		Items []struct {
			Subscription, Missing string
			Ready                 bool
		}
		Elsewhere []string
		Unknown   []struct{ Kind, Why string }
	}
	ask := func(args ...string) {
		r.t.Helper()
		page.Items, page.Elsewhere, page.Unknown = nil, nil, nil
		out, err := r.try(main.operator, append(args, "-o", "json")...)
		if err = cmp.Or(err, json.Unmarshal(out, &page)); err != nil {
			r.t.Fatalf("%v: %s, %v", args, out, err)
		}
	}
	ask("subscriptions", "list")
	if i := page.Items[0]; len(page.Items) != 3 || i.Subscription != "billing" || i.Ready || !strings.Contains(i.Missing, "--subscriptions "+own) {
		r.t.Errorf("subscriptions list: %+v", page.Items)
	}
	if ask("inbox", "list"); len(page.Items) != 5 || len(page.Elsewhere) != 1 || page.Elsewhere[0] != own {
		r.t.Errorf("inbox list: %+v", page)
	}
	if ask("attention", "--kind", "dead_letter"); len(page.Unknown) != 1 || !strings.Contains(page.Unknown[0].Why, own) {
		r.t.Errorf("attention: %+v", page.Unknown)
	}
	if out, err := r.try("127.0.0.1:0", "serve", "-c", r.config, "--roles", "stream", "--subscriptions", own+","+other); err == nil {
		r.t.Errorf("a process with two ledgers: %s, %v", out, err)
	}
}

// resultsOfTwoLedgers has the agent say later what came of a delivery, of both subscriptions, at the wrong process first.
func (r *deployment) resultsOfTwoLedgers(main, billing *process) {
	r.t.Helper()
	d := issues(99, 1)
	r.deliver(d)
	r.waitActs("/run", 6)
	r.waitActs("/billing", 6)
	for _, c := range r.agent.snapshot() {
		if !strings.HasSuffix(c.entity, "/99") {
			continue
		}
		wrong, right := billing, main
		if c.path == "/billing" {
			wrong, right = main, billing
		}
		for _, path := range []string{"/heartbeat", "/result"} {
			public := strings.TrimSuffix(c.result, "/result") + path
			if code, body := wrong.post(r.t, public, c.token, `{"status":"done"}`); code != http.StatusMisdirectedRequest {
				r.t.Errorf("%s of %s at the other process: %d %s", path, c.path, code, body)
			}
		}
		if code, body := right.post(r.t, c.result, c.token, `{"status":"done"}`); code != http.StatusAccepted {
			r.t.Errorf("the result of %s: %d %s", c.path, code, body)
		}
	}
	main.waitStatus(r.t, r.statusURL(d), "done")
	if items := waitItems(r.t, r, billing, 1, "--status", "done", "--entity", "7/99"); len(items) != 1 {
		r.t.Errorf("billing: %+v", items)
	}
}

// TestRekeyOfTwoLedgers: a topic goes over to a copy with more partitions for its subscriptions of both ledgers, and what they have run is
// not run again.
func TestRekeyOfTwoLedgers(t *testing.T) {
	t.Parallel()
	r, _ := deployTwoLedgers(t)
	from := "events." + r.team + ".github"
	to := from + ".10"
	main, billing := r.serve("intake,stream"), r.only("billing")
	r.deliverAll(5, 1, issues)
	r.waitActs("/run", 5)
	r.waitActs("/billing", 5)
	waitItems(t, r, main, 5, "--status", "done")
	waitItems(t, r, billing, 5, "--status", "done")
	main.stop()
	if s := r.rekey(from); s["stop"].State != "blocked" || !strings.Contains(s["stop"].Detail, r.team+".billing (1 members)") {
		t.Errorf("the plan while the process of one of them runs: %+v", s)
	}
	billing.stop()
	var done struct {
		Subscriptions []struct {
			Subscription string
			Lines        int
		}
	}
	out := r.command("topics", "rekey", from, "--partitions", "10", "-c", r.config, "--run", "-o", "json")
	if err := json.Unmarshal(out, &done); err != nil || len(done.Subscriptions) != 2 || done.Subscriptions[0].Subscription != r.team+".billing" ||
		done.Subscriptions[1].Subscription != r.team+".triage" || done.Subscriptions[0].Lines != 5 || done.Subscriptions[1].Lines != 5 {
		t.Fatalf("%s %v", out, err)
	}
	r.edit("github: {preset: github,", "github: {topic: "+to+", topics: {partitions: 10}, preset: github,")
	r.serve("intake,stream")
	r.only("billing")
	r.deliverAll(5, 1, issues) // what came by the old topic, repeated
	r.deliverAll(5, 2, issues)
	r.waitActs("/run", 10)
	r.waitActs("/billing", 10)
	if a, b := len(r.acts("/run")), len(r.acts("/billing")); a != 10 || b != 10 {
		t.Errorf("%d and %d actions, want 10 each", a, b)
	}
}
