package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// reading is a deployment with a second team, whose file is in a directory and reads the first team's orders.
type reading struct {
	*deployment
	reader string
}

// file is the file of a team that reads the orders.
func (r *reading) file(team string) string {
	return fmt.Sprintf(`teams:
  %[1]s:
    contact: "#risk"
    destinations:
      mine: {type: http, url: "%[3]s/risk", secret: "${env:%[4]s_SECRET}", retry: {attempts: 20, within: 10m, min: 50ms, max: 500ms}, allow_networks: [127.0.0.0/8]}
    subscriptions:
      risk: {sources: [%[2]s/orders], begin: all, actions: [{name: look, to: mine}]}
`, team, r.team, r.agent.URL, strings.ToUpper(strings.ReplaceAll(team, "-", "_")))
}

// put writes a file below the deployment's directory.
func (r *deployment) put(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// risks are the calls of the reader.
func (r *reading) risks() (list []call) {
	return slices.DeleteFunc(r.agent.snapshot(), func(c call) bool { return c.path != "/risk" })
}

// send has the provider send the first revision of orders, and waits until their own team has acted on as many of them as there are by now.
func (r *reading) send(word string, n, all int) {
	r.t.Helper()
	if err := r.sender.load(r.t.Context(), orders(word, n), 8, 0); err != nil {
		r.t.Fatal(err)
	}
	r.agent.waitActed(r.t, all, time.Minute)
}

// waitRisks waits until the reader was called for n events, and fails if one was called for twice.
func (r *reading) waitRisks(n int) {
	r.t.Helper()
	events := map[string]bool{}
	rig.Until(time.Minute, func() bool {
		for _, c := range r.risks() {
			events[c.event] = true
		}
		return len(events) >= n
	})
	if calls := r.risks(); len(events) != n || len(calls) != n {
		r.t.Fatalf("the reader was called %d times for %d events, want %d", len(calls), len(events), n)
	}
	for _, c := range r.risks() {
		if c.source != "/"+r.team+"/orders" {
			r.t.Errorf("the reader was called for an event of %s", c.source)
		}
	}
}

const shareLine = "      orders:\n        share: [%s]\n"

// TestATeamReadsAnothersSource: payments acts on acme's events as long as acme shares them. Who has no share is refused; whom it is taken
// from stops, visibly, and holds up nobody; given back, nothing was missed and nothing runs twice.
func TestATeamReadsAnothersSource(t *testing.T) {
	t.Parallel()
	const each = 30
	r := &reading{deployment: deploy(t, rig.Fake(t), options{})}
	r.reader = r.team + "-risk"
	for _, team := range []string{r.reader, r.team + "-out"} {
		r.variables = append(r.variables, strings.ToUpper(strings.ReplaceAll(team, "-", "_"))+"_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	}
	shared := fmt.Sprintf(shareLine, r.reader)
	r.edit("      orders:\n", shared)
	r.edit("teams:\n  "+r.team+":\n", "teams_dir: {path: teams, references: {env: [\"{TEAM}_*\"], networks: [127.0.0.0/8]}}\nteams:\n  "+r.team+":\n    owners: [ann]\n    contact: \"#acme\"\n")
	r.put("teams/"+r.reader+".yaml", r.file(r.reader))
	r.command("config", "check", "-c", r.config)
	r.command("topics", "apply", "-c", r.config)
	r.refuses(r.team + "-out")

	p := r.serve("intake,stream")
	r.send("first", each, each)
	r.waitRisks(each)
	r.finds(p, each)

	// acme takes the share back. The reader's own slip, and a third team's, do not save it.
	r.put("teams/"+r.reader+".yaml", strings.Replace(r.file(r.reader), "risk: {", "risk: {nonsense: 1, ", 1))
	r.put("teams/"+r.team+"-out.yaml", "teams: {"+r.team+"-out: {subscriptions: nonsense}}\n")
	r.edit(shared, "      orders:\n")
	row := r.barredRow(p)
	r.put("teams/"+r.reader+".yaml", r.file(r.reader))
	r.put("teams/"+r.team+"-out.yaml", "teams: {"+r.team+"-out: {}}\n")
	if row.Contact != "#risk" || !containsAll(row.Detail, "team "+r.team+" does not share its source orders with team "+r.reader, "ask team "+r.team+" (ann, #acme)") {
		t.Errorf("attention says %+v", row)
	}
	r.send("second", each, 2*each)
	p.stop()
	p = r.serve("intake,stream") // as much is ready as before, and does not read either
	r.barredRow(p)
	r.send("third", each, 3*each)
	r.waitRisks(each)
	if out, err := r.try(p.operator, "subscriptions", "get", r.reader+".risk"); err != nil || !containsAll(string(out), "ready         false", "does not share its source orders") {
		t.Errorf("subscriptions get: %v\n%s", err, out)
	}

	r.edit("      orders:\n", shared)
	r.waitRisks(3 * each)
}

// refuses checks that a team that the source is not shared with is refused, by its own name and the owner's.
func (r *reading) refuses(team string) {
	r.t.Helper()
	r.put("strangers/"+team+".yaml", r.file(team))
	out, err := r.try("127.0.0.1:0", "config", "check", "-c", r.config, "--teams", filepath.Join(r.dir, "strangers"))
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 5 || !containsAll(string(out), team+".yaml:7: teams."+team+".subscriptions.risk.sources[0]: team "+r.team+" does not share its source orders with team "+team,
		"ask team "+r.team+" (ann, #acme) to write share: ["+r.reader+", "+team+"] at teams."+r.team+".sources.orders ("+r.config+":") {
		r.t.Errorf("a team without a share: %v\n%s", err, out)
	}
}

// finds checks that what the lists print of another team's source is understood.
func (r *reading) finds(p *process, n int) {
	r.t.Helper()
	items := waitItems(r.t, r.deployment, p, n, "--team", r.reader, "--source", r.team+"/orders", "--status", "done")
	if len(items) == 0 || items[0].Source != "/"+r.team+"/orders" || items[0].Subscription != "risk" {
		r.t.Fatalf("the inbox has %+v", items)
	}
	ids := strings.Fields(string(r.ask(p, "inbox", "list", "--subscription", r.reader+".risk", "-o", "id", "--limit", "1")))
	if len(ids) != 1 || !strings.HasPrefix(ids[0], r.reader+"/risk/%2F"+r.team+"%2Forders/") {
		r.t.Fatalf("the id is %s", ids)
	}
	if out := string(r.ask(p, "inbox", "get", ids[0])); !containsAll(out, "events."+r.team+".orders") {
		r.t.Errorf("inbox get %s: %s", ids[0], out)
	}
	if out := string(r.ask(p, "entities", "get", r.reader+"/risk/%2F"+r.team+"%2Forders", items[0].Entity)); !containsAll(out, items[0].Entity) {
		r.t.Errorf("entities get: %s", out)
	}
	if out := string(r.ask(p, "entities", "list", "--team", r.reader, "--source", r.team+"/orders", "-o", "id")); !strings.Contains(out, r.reader+"/risk/%2F"+r.team+"%2Forders/"+items[0].Entity+"\n") {
		r.t.Errorf("entities list: %s", out)
	}
	if out := string(r.ask(p, "sources", "list", "-o", "json")); !containsAll(out, `"share"`, `"`+r.reader+`"`, `"#acme"`) {
		r.t.Errorf("sources list: %s", out)
	}
}

type barredItem struct{ ID, Detail, Reason, Contact string }

// barredRow waits until the reader's subscription is listed as one that does not run, and the process is ready all the same.
func (r *reading) barredRow(p *process) (row barredItem) {
	r.t.Helper()
	var out []byte
	if !rig.Until(time.Minute, func() bool {
		out = r.ask(p, "attention", "--kind", "barred_subscription", "-o", "json")
		var found struct{ Items []barredItem }
		if err := json.Unmarshal(out, &found); err != nil || len(found.Items) != 1 || found.Items[0].ID != r.reader+".risk" {
			return false
		}
		row = found.Items[0]
		return true
	}) {
		r.t.Fatalf("attention does not list the subscription: %s", out)
	}
	resp, err := http.Get("http://" + p.operator + "/readyz")
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		r.t.Errorf("the process is not ready: %d", resp.StatusCode)
	}
	return row
}

// TestDeliveryOfASharedSource looks for deliveries of a source that two teams read, as each of them: a team is told of its own subscriptions
// and of the events that it may read; what the owner has set aside is the owner's alone.
func TestDeliveryOfASharedSource(t *testing.T) {
	t.Parallel()
	r := &reading{deployment: deploy(t, rig.Fake(t), options{team: "acme"}), reader: "payments"}
	r.edit("      github: {preset: github,", "      github: {share: [payments], preset: github,")
	r.edit("      orders:\n", fmt.Sprintf(shareLine, r.reader))
	r.edit("actions: [{name: run, to: shop}]\n", `actions: [{name: run, to: shop}]
  payments:
    destinations: {log: {type: log}}
    subscriptions:
      risk: {sources: [acme/github, acme/orders], begin: all, actions: [{name: look, to: log}]}
`)
	p := r.serve("intake,stream")
	s := &transcript{r: r.deployment, p: p, names: []string{operatorName(), "ann@ops", r.config, "forebay.yaml"}}
	as := func(team, id string) { s.run("inbox", "list", "--delivery", id, "-o", "id", "--team", team) }
	look := func(id string) {
		s.run("inbox", "list", "--delivery", id, "-o", "id")
		as("acme", id)
		as("payments", id)
	}

	goOn, ownGoesOn := holdFences(t, r.deployment, "payments.%"), holdFences(t, r.deployment, "acme.%")
	one, signed := issue(7, 1, 1), order("o-1", 1)
	r.deliver(one, signed)
	s.say("nobody has decided it yet")
	look(one.guid())
	ownGoesOn()
	goOn()
	waitItems(t, r.deployment, p, 4, "--status", "done")
	s.say("both have; by an id in the log, and by one in the ledger")
	for _, id := range []string{one.guid(), signed.id} {
		as("acme", id)
		as("payments", id)
		waitItems(t, r.deployment, p, 2, "--delivery", id)
	}

	goOn = holdFences(t, r.deployment, "payments.%")
	two, second := issue(7, 2, 1), order("o-2", 1)
	r.deliver(two, second)
	waitItems(t, r.deployment, p, 4, "--team", "acme", "--status", "done")
	s.say("only its own team has")
	look(two.guid())
	look(second.id)
	goOn()
	waitItems(t, r.deployment, p, 8, "--status", "done")

	s.say("quarantined: it came under the name of another event")
	other := issue(7, 9, 2)
	req := other.request(t.Context(), p.intake, r.team)
	req.Header.Set("X-GitHub-Event", "push")
	if status := do(t, req); status != http.StatusAccepted {
		t.Fatal(status)
	}
	look(other.guid())

	r.edit("share: [payments], preset", "preset")
	r.barredRow(p)
	s.say("not shared any more: what was read is the reader's to keep, the log is not")
	as("payments", one.guid())
	as("payments", signed.id)
	third := issue(7, 3, 1)
	r.deliver(third)
	waitItems(t, r.deployment, p, 5, "--team", "acme", "--status", "done")
	look(third.guid())
	s.golden("delivery_shared.golden")
}

// holdFences keeps the subscriptions whose full names are like a pattern, with 12 partitions together, from writing batches, until the
// function that it returns is called.
func holdFences(t *testing.T, r *deployment, like string) (goOn func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), r.dbURL)
	if err != nil {
		t.Fatal(err)
	}
	const fences = ` FROM forebay.fences f JOIN forebay.subscriptions s ON s.id = f.subscription JOIN forebay.progress p ON p.fence = f.id WHERE s.name LIKE $1`
	n := 0
	if !rig.Until(time.Minute, func() bool {
		return conn.QueryRow(t.Context(), `SELECT count(*)`+fences, like).Scan(&n) == nil && n == 12
	}) {
		t.Fatalf("%d partitions are claimed", n)
	}
	tx, err := conn.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `SELECT`+fences+` FOR UPDATE OF f`, like)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := errors.Join(tx.Rollback(t.Context()), conn.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}
