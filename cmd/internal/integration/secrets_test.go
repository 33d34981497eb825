package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// secretFile has a canary, <name>, in each of its texts that is no name or address. Its destinations fail in every way there is.
// PORT is where somebody answers 422 and echoes what it was sent, encoded; nobody listens at CLOSED.
const secretFile = `version: 1
kafka: {brokers: ["BROKERS"], session_timeout: 6s, publish: {TEAM: ["c4n4ry"]}}
postgres: {url: "${env:FOREBAY_POSTGRES_URL}", statements: true}
listen: {intake: "${env:INTAKE}", operator: "${env:OPERATOR}", agents: "${env:AGENTS}"}
agents: {public_url: "http://127.0.0.1:1", secrets: ["<agents-secret-of-32-characters-or-more>"]}
exec: {enabled: true}
registry: {url: "http://127.0.0.1:CLOSED", user: forebay, password: "<registry-password>"}
topics: {partitions: 6, replication: 1, retention: 1d}
alerts:
  every: 1s
  receivers:
    http: {type: http, url: "http://127.0.0.1:PORT/<alert-path>?q=<alert-query>", secret: "whsec_<http-secret>", headers: {Authorization: "Bearer <alert-header>"}, params: {body: {key: "<alert-param>"}}, allow_networks: [127.0.0.0/8]}
    slack: {type: slack, token: "<alert-token>", base_url: "http://127.0.0.1:CLOSED/<alert-base>", params: {channel: C0C4N4RY12}, allow_networks: [127.0.0.0/8]}
    pagerduty: {type: pagerduty, routing_key: "<alert-key>", base_url: "http://127.0.0.1:PORT/<alert-events>", allow_networks: [127.0.0.0/8]}
destinations:
  shared: {type: http, url: "http://127.0.0.1:PORT/<shared-path>?q=<shared-query>", headers: {Authorization: "Bearer <shared-header>"}, params: {body: {key: "<shared-param>"}}, teams: ["*"], RETRY}
teams:
  TEAM:
    sources:
      orders:
        preset: generic
        secrets: ["${env:ORDERS_SECRET}", "<source>"]
        verify: {algorithm: sha256, signature_header: X-Signature, prefix: "sha256=", encoding: hex, signed: "{body}"}
        event: {id: header:X-Event-Id, type: /type, entity: [/order/id], version: {from: /order/rev, kind: sequence}, payload: snapshot}
        backfill: {url: "http://127.0.0.1:PORT/backfill/<backfill>?q=<backfill-query>", headers: {X-Key: "<backfill-header>"}, allow_networks: [127.0.0.0/8], retry: {attempts: 1}}
      carts:
        preset: generic
        secrets: ["${env:ORDERS_SECRET}"]
        verify: {algorithm: sha256, signature_header: X-Signature, prefix: "sha256=", encoding: hex, signed: "{body}"}
        event: {id: header:X-Event-Id, type: /type, entity: [/order/id], payload: delta}
        first_filter: {redis: {url: "redis://forebay:<redis-password>@127.0.0.1:CLOSED/0"}}
        thin: {url: "http://127.0.0.1:PORT/thin/<thin>?q=<thin-query>", headers: {X-Key: "<thin-header>"}, allow_networks: [127.0.0.0/8]}
      repository:
        preset: github
        secrets: ["<repository-secret>"]
        reconcile: {every: 1m, hook: octo/hello/1, token: "<reconcile-token>", api_url: "http://127.0.0.1:CLOSED"}
    destinations:
      http: {type: http, url: "http://127.0.0.1:PORT/<http-path>?q=<http-query>", secret: "whsec_<http-secret>", headers: {Authorization: "Bearer <http-header>"}, params: {body: {key: "<http-param>"}}, RETRY}
      closed: {type: http, url: "http://127.0.0.1:CLOSED/<closed-path>?q=<closed-query>", RETRY}
      hangs: {type: http, url: "http://127.0.0.1:PORT/hang/<hangs-path>?q=<hangs-query>", timeout: 300ms, RETRY}
      breaks: {type: http, url: "http://127.0.0.1:PORT/break/<breaks-path>?q=<breaks-query>", RETRY}
      slack: {type: slack, token: "<slack-token>", base_url: "http://127.0.0.1:PORT/<slack-base>", params: {channel: C0C4N4RY12, text: "<slack-text>"}, RETRY}
      github: {type: github, do: comment, token: "<github-token>", base_url: "http://127.0.0.1:PORT/<github-base>", params: {repo: octo/hello, issue: "1", body: "<github-text>"}, RETRY}
      pagerduty: {type: pagerduty, routing_key: "<pagerduty-key>", base_url: "http://127.0.0.1:PORT/<pagerduty-base>", params: {summary: "<pagerduty-text>"}, RETRY}
      mcp: {type: mcp, untrusted: ok, url: "http://127.0.0.1:PORT/<mcp-path>?q=<mcp-query>", headers: {X-Key: "<mcp-header>"}, params: {tool: "<mcp-tool>"}, RETRY}
      exec: {type: exec, command: [sh, -c, 'echo "$SECRET $0"; exit 64', "<exec-argument>"], env: {SECRET: "<exec-env>"}, retry: {attempts: 1}}
      topic: {type: kafka, topic: "<kafka-topic>", timeout: 2s, retry: {attempts: 1}}
      elsewhere: {type: postgres, database: "postgres://<pg-user>:<pg-password>@127.0.0.1:CLOSED/<pg-database>?sslmode=disable", statement: "SELECT 1", params: {values: []}, RETRY}
      ledger: {type: postgres, statement: "INSERT INTO <ledger-statement> VALUES ($1)", params: {values: ["<ledger-value>"]}, retry: {attempts: 1}}
      other: {type: postgres, database: "${env:FOREBAY_POSTGRES_URL}", statement: "SELECT CAST($1 AS text)::int", key_table: "<key_table>", params: {values: ["<pg-value>"]}, RETRY}
      log: {type: log}
    subscriptions:
      fulfil:
        sources: [orders]
        begin: all
        start: first
        gap: {wait: 100ms, then: backfill, otherwise: skip}
        actions: [ACTIONS]
      thin:
        sources: [carts]
        begin: all
        actions: [{name: run, to: log, on_dead: continue}]
      apart:
        sources: [carts]
        postgres: {url: "postgres://<own-user>:<own-password>@127.0.0.1:CLOSED/<own-database>?sslmode=disable"}
        actions: [{name: run, to: log, on_dead: continue}]
`

// loginKeys are how secretFile's processes would get in where brokers ask for it. The embedded broker takes no token.
const loginKeys = `sasl: {mechanism: OAUTHBEARER, token: "<kafka-token>"}, roles: {intake: {sasl: {mechanism: PLAIN, user: forebay, password: "<kafka-password>"}}}`

// loginPeople is how people would log in to its console. Nobody listens at CLOSED.
const loginPeople = `operator:
  auth: tokens
  public_url: "https://${env:OPERATOR}"
  oidc: {issuer: "http://127.0.0.1:CLOSED", client_id: forebay, client_secret: "<oidc-secret>", scopes: [openid], grants: [{claim: groups, value: oncall, role: viewer, teams: ["*"]}]}
`

// echo answers 422 with what it was sent, as destinations do that log for their users.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case strings.Contains(r.URL.Path, "/hang/"):
		<-r.Context().Done()
		return
	case strings.Contains(r.URL.Path, "/break/"):
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusUnprocessableEntity)
	_ = json.NewEncoder(w).Encode(map[string]any{"uri": r.RequestURI, "headers": r.Header, "body": string(body), "again": fmt.Sprintf("%q", body)})
}

// canaries are what the references of a file lead to.
type canaries struct{ env, names []string }

var marked = regexp.MustCompile(`<[a-z_-]+[0-9]*[a-z-]*>`)

// plant puts a reference to a canary in the place of each name in angle brackets.
func (c *canaries) plant(text string) string {
	return marked.ReplaceAllStringFunc(text, func(name string) string {
		name = strings.Trim(name, "<>")
		value := fmt.Sprintf("c4n4ry-%03d-%s-5d41402abc4b2a76", len(c.env), name)
		if name == "key_table" || name == "ledger-statement" {
			value = strings.ReplaceAll(value, "-", "_")
		}
		if name == "http-secret" {
			value = "YzRuNHJ5LWM0bjRyeS1jNG40cnktYzRuNHJ5" // base64 of its own
		}
		variable := fmt.Sprintf("CANARY_%d", len(c.env))
		c.env, c.names = append(c.env, variable+"="+value), append(c.names, value)
		return "${env:" + variable + "}"
	})
}

// look fails the test where a text has a canary, as it is or in base64.
func (c *canaries) look(t *testing.T, where, text string) {
	t.Helper()
	for _, value := range append(c.names, "YzRuNHJ5LW") {
		if i := strings.Index(text, value); i >= 0 {
			t.Errorf("%s shows %s:\n%s", where, value, text[max(0, i-300):min(len(text), i+100)])
		}
	}
	if i := strings.Index(text, "c4n4ry-"); i >= 0 && !t.Failed() {
		t.Errorf("%s shows a part of a secret:\n%s", where, text[max(0, i-300):min(len(text), i+100)])
	}
}

// TestNoSecretIsShown sends a canary through every text of the file, lets every destination fail, and looks wherever an operator
// does: config show, the log at its most talkative, the API, the metrics, the dead letters.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	r := deploy(t, rig.Fake(t), options{})
	var all canaries
	actions := []string{}
	for _, to := range []string{"http", "closed", "hangs", "breaks", "slack", "github", "pagerduty", "mcp", "exec", "topic", "elsewhere", "ledger", "other", "log", "shared"} {
		actions = append(actions, "{name: "+to+", to: "+to+", on_dead: continue}")
	}
	text := strings.NewReplacer("BROKERS", r.broker.Bootstrap(), "TEAM", r.team, "PORT", server.URL[strings.LastIndex(server.URL, ":")+1:], "ACTIONS", strings.Join(actions, ", "),
		"CLOSED", rig.FreeAddress(t)[len("127.0.0.1:"):], "RETRY", "retry: {attempts: 2, min: 1ms, max: 5ms}, allow_networks: [127.0.0.0/8]").Replace(all.plant(secretFile))
	login := strings.Replace(text, "session_timeout: 6s", "session_timeout: 6s, "+all.plant(loginKeys), 1)
	login = strings.Replace(login, "registry:", strings.ReplaceAll(all.plant(loginPeople), "CLOSED", rig.FreeAddress(t)[len("127.0.0.1:"):])+"registry:", 1)
	everyText(t, r, login)
	r.variables = append(r.variables, all.env...)
	r.variables = append(r.variables, "FOREBAY_LOG_LEVEL=debug", "AGENTS="+rig.FreeAddress(t))
	r.config = filepath.Join(r.dir, "secrets.yaml")
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, password, ok := strings.Cut(strings.Split(strings.TrimPrefix(r.dbURL, "postgres://"), "@")[0], ":"); ok {
		all.names = append(all.names, password)
	}
	r.command("topics", "apply", "-c", r.config)
	all.shown(t, r)
	out, err := r.try("127.0.0.1:0", "migrate", "-c", r.config)
	if err == nil || !strings.Contains(err.Error(), "teams."+r.team+".subscriptions.apart.postgres: migrate the ledger: connect to postgres at 127.0.0.1:") {
		t.Errorf("a ledger that nobody answers for was migrated: %s %v", out, err)
	}
	all.look(t, "migrate", string(out)+fmt.Sprint(err))
	p := r.serve("intake,stream")
	first, third := order("o-1", 1), order("o-1", 3)
	cart := delivery{id: "cart-1", entity: "c-1", body: []byte(`{"type":"cart","order":{"id":"c-1"}}`), source: "carts"}
	for _, d := range []*delivery{&first, &third, &cart} { // the bundle of forebay doctor must have nothing of a body
		d.body = append([]byte(`{"note":"`+inBodies+`",`), d.body[1:]...)
	}
	r.deliver(first, third, cart)
	want := 2*(len(actions)-1) + 1
	var dead []deadItem
	if !rig.Until(90*time.Second, func() bool {
		var err error
		if dead, err = r.dlq(p, "list", "--limit", "500"); err != nil {
			t.Fatal(err)
		}
		return len(dead) >= want
	}) {
		t.Errorf("%d dead letters, want %d: %+v", len(dead), want, dead)
	}
	commands := [][]string{{"dlq", "list"}, {"dlq", "groups"}, {"dlq", "export"}, {"inbox", "list"}, {"destinations", "list"}, {"subscriptions", "list"}, {"sources", "list"},
		{"subscriptions", "get", r.team + ".fulfil"}, {"inbox", "get", r.team + "/fulfil/orders/" + third.id}, {"inbox", "get", r.team + "/thin/carts/" + cart.id}}
	asked := map[string]bool{}
	dead = slices.DeleteFunc(dead, func(d deadItem) bool { // one of each destination
		known := asked[d.Destination]
		asked[d.Destination] = true
		return known
	})
	for _, d := range dead {
		commands = append(commands, []string{"dlq", "get", d.ID}, []string{"destinations", "get", d.Destination})
	}
	for _, c := range commands {
		for _, form := range []string{"json", "wide"} {
			out, err := r.try(p.operator, append(c, "-o", form)...)
			if err != nil && strings.Contains(err.Error(), "context deadline exceeded") {
				t.Fatalf("%v -o %s hangs: %v\n%s", c, form, err, p.stacks())
			}
			if err != nil || len(out) < 3 {
				t.Errorf("%v -o %s: %q, %v", c, form, out, err)
			}
			all.look(t, strings.Join(append(c, "-o", form), " "), string(out)+fmt.Sprint(err))
		}
	}
	all.bundle(t, r, p)
	for _, path := range []string{"/metrics", "/readyz", "/livez"} {
		all.look(t, path, get(t, "http://"+p.operator+path))
	}
	pages := []string{"/console/", "/console/inbox", "/console/attention", "/console/dlq", "/console/entity?" + url.Values{"of": {r.team + "/fulfil/orders"}, "entity": {"o-1"}}.Encode()}
	for _, d := range dead {
		pages = append(pages, "/console/dlq/replay?action="+d.ID, "/console/dlq/replay?group="+d.Group)
	}
	for _, id := range []string{r.team + "/fulfil/orders/" + first.id, r.team + "/fulfil/orders/" + third.id, r.team + "/thin/carts/" + cart.id} {
		pages = append(pages, "/console/event?"+url.Values{"id": {id}}.Encode())
	}
	for _, page := range pages {
		all.look(t, page, html.UnescapeString(getOK(t, "http://"+p.operator+page)))
	}
	all.pages(t, "http://"+p.operator)
	p.stop()
	log := p.output()
	if !strings.Contains(log, "level=DEBUG") {
		t.Errorf("the log is not one of level debug:\n%.2000s", log)
	}
	all.look(t, "the log", log)
	all.refused(t, r, login)
}

// inBodies stands in every body that is sent.
const inBodies = "p4yl04d-0f-4-s3nd3r"

// linkTo finds what a page of the console leads to.
var linkTo = regexp.MustCompile(`href="(/console/[^"]*)"`)

// pages looks at every page that the console's first one leads to, by any way.
func (c *canaries) pages(t *testing.T, base string) {
	t.Helper()
	todo, seen, kinds := []string{"/console/"}, map[string]bool{"/console/": true}, map[string]int{}
	for len(todo) > 0 && len(seen) < 500 {
		path := todo[0]
		todo = todo[1:]
		page := get(t, base+path)
		c.look(t, path, html.UnescapeString(page))
		for _, link := range linkTo.FindAllStringSubmatch(page, -1) {
			next := html.UnescapeString(link[1])
			kind := regexp.MustCompile(`^/console/[a-z]*`).FindString(next)
			if seen[next] || strings.HasPrefix(next, "/console/static/") || kinds[kind] >= 12 { // as many of a kind as are different
				continue
			}
			seen[next], todo = true, append(todo, next)
			kinds[kind]++
		}
	}
	for _, kind := range []string{"attention", "audit", "destinations", "dlq", "entity", "event", "gaps", "health", "inbox", "quarantine", "replays", "schemas", "sources", "subscriptions"} {
		if kinds["/console/"+kind] == 0 {
			t.Errorf("nothing leads to /console/%s", kind)
		}
	}
}

// bundle has `forebay doctor` look at the running process and write a bundle, and looks at each file in it.
func (c *canaries) bundle(t *testing.T, r *deployment, p *process) {
	t.Helper()
	log, path := filepath.Join(r.dir, "process.log"), filepath.Join(r.dir, "support.tar.gz")
	if err := os.WriteFile(log, []byte(p.output()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := r.try(p.operator, "doctor", "-c", r.config, "--bundle", path, "--log", log, "-o", "json")
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 5 || !strings.Contains(err.Error(), "wrote "+path) {
		t.Fatalf("forebay doctor, of an installation that is broken in many ways: %s %v", out, err)
	}
	c.look(t, "forebay doctor", string(out)+fmt.Sprint(err))
	packed, err := exec.Command("tar", "-xzOf", path).Output()
	if at := strings.Index(string(packed), inBodies[:8]); err != nil || at >= 0 {
		t.Errorf("the bundle has something of a body, or cannot be unpacked: %.300s %v", packed[max(0, at-100):], err)
	}
	c.look(t, "the bundle", string(packed))
	names, err := exec.Command("tar", "-tzf", path).Output()
	for _, name := range []string{"README.txt", "checks.json", "config.yaml", "ready.json", "metrics.txt", "attention.json", "subscriptions.json", "sources.json", "destinations.json", "log.txt", "manifest.json"} {
		if !strings.Contains(string(names), "support/"+name+"\n") {
			t.Errorf("the bundle has no %s: %s %v", name, names, err)
		}
	}
}

// shown looks at what config show shows of the file.
func (c *canaries) shown(t *testing.T, r *deployment) {
	t.Helper()
	for _, form := range []string{"yaml", "json", "jsonl", "table", "wide"} {
		c.look(t, "config show -o "+form, string(r.command("config", "show", "-c", r.config, "-o", form)))
	}
}

// refused has brokers refuse the token of a file. On TestSecuredKafka's, passwords and tokens get in or not.
func (c *canaries) refused(t *testing.T, r *deployment, file string) {
	t.Helper()
	if err := os.WriteFile(r.config, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	c.shown(t, r)
	const why = "the brokers do not offer kafka.sasl.mechanism at this address"
	out, err := r.try("127.0.0.1:0", "topics", "apply", "-c", r.config)
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("brokers that take no token were asked for topics: %s %v", out, err)
	}
	c.look(t, "topics apply", string(out)+fmt.Sprint(err))
	p := r.start("stream")
	until(t, "the log says that the brokers refuse the token", func() bool { return strings.Contains(p.output(), why) })
	for _, path := range []string{"/readyz", "/console/login", "/console/login/oidc", "/console/login/callback?state=x&code=y"} {
		c.look(t, path, get(t, "http://"+p.operator+path))
	}
	p.stop()
	c.look(t, "the log", p.output())
}

// getOK is get of what must be there.
func getOK(t *testing.T, url string) string {
	t.Helper()
	text, status := ask(t, url)
	if status != http.StatusOK {
		t.Errorf("%s: %d: %s", url, status, text)
	}
	return text
}

func get(t *testing.T, url string) string {
	t.Helper()
	text, _ := ask(t, url)
	return text
}

func ask(t *testing.T, url string) (text string, status int) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || len(b) == 0 {
		t.Fatalf("%s: %d bytes, %v", url, len(b), err)
	}
	return string(b), resp.StatusCode
}

// shownKeys are the texts of the file that are names or addresses: logs, the API and metrics show them. Everything that is not here, and
// no closed list, has a canary in secretFile.
var shownKeys = []string{
	"kafka.brokers", "kafka.instance_id", "kafka.client_id", "kafka.rack", "kafka.tls.ca_file", "kafka.tls.cert_file", "kafka.tls.key_file", "kafka.tls.server_name", "kafka.sasl.user", "kafka.publish.*",
	"registry.url", "registry.user", "registry.tls.ca_file", "registry.tls.cert_file", "registry.tls.key_file", "registry.tls.server_name",
	"listen.intake", "listen.operator", "listen.agents", "listen.health",
	"operator.public_url", "operator.tls.cert_file", "operator.tls.key_file", "operator.behind_proxy", "operator.oidc.issuer", "operator.oidc.client_id", "operator.oidc.scopes", "operator.oidc.grants.claim", "operator.oidc.grants.value", "operator.oidc.grants.teams",
	"postgres.schema", "teams.*.subscriptions.*.postgres.schema",
	"intake.public_url", "intake.spool.dir", "intake.trusted_proxies", "agents.public_url", "teams.*.sources.*.public_url", "teams_dir", "teams.*.sources.*.topic", "teams.*.sources.*.each", "teams.*.sources.*.first_filter.redis.ca_file", "teams.*.sources.*.backfill.items", "teams.*.sources.*.json_schema.own", "teams.*.subscriptions.*.sources", "teams.*.subscriptions.*.types",
	"teams.*.sources.*.share", "teams.*.owners", "teams.*.contact", "teams.*.subscriptions.*.owners", "teams.*.subscriptions.*.contact", "teams.*.subscriptions.*.begin", "teams.*.subscriptions.*.actions.name", "teams.*.subscriptions.*.actions.to", "teams.*.subscriptions.*.actions.approval.ask",
	"destinations.*.teams", "destinations.*.agent", "teams.*.destinations.*.agent", "alerts.off", "alerts.receivers.*.severities", "telemetry.endpoint",
	"policy.name", "policy.if", "policy.reason", "policy.ask", "teams.*.policy.name", "teams.*.policy.if", "teams.*.policy.reason", "teams.*.policy.ask",
	"teams.*.subscriptions.*.match", "teams.*.subscriptions.*.actions.when", "teams.*.subscriptions.*.dedupe.also.key", "teams.*.sources.*.own", "teams.*.sources.*.reconcile.hook", "teams.*.sources.*.reconcile.api_url",
}

// everyText fails the test if the file leaves a text of the schema without a canary.
func everyText(t *testing.T, r *deployment, file string) {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal(r.command("config", "schema"), &schema); err != nil {
		t.Fatal(err)
	}
	var written any
	if err := yaml.Unmarshal([]byte(file), &written); err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	walkFile(written, "", has)
	texts := 0
	walkSchema(schema, "", func(path string) {
		path = ofAnyRole.ReplaceAllString(path, "kafka.") // a role has the keys of all
		shown := strings.Contains(path, ".verify.") || strings.Contains(path, ".event.") || strings.HasSuffix(path, ".allow_networks") || slices.Contains(shownKeys, path)
		same := path
		if key, ok := strings.CutPrefix(path, "destinations.*."); ok { // shared ones have the keys of a team's own, and the same sinks
			same = "teams.*.destinations.*." + key
		}
		if texts++; !shown && !has[same] {
			t.Errorf("%s has no canary in secretFile, nor is it a name or an address that is shown", path)
		}
	})
	if texts < 50 {
		t.Errorf("the schema has %d texts: this test does not see them", texts)
	}
}

// walkFile marks the paths of what leads to a canary, names of things as *.
func walkFile(v any, path string, has map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			walkFile(inner, path+"."+key, has)
		}
	case []any:
		for _, inner := range v {
			walkFile(inner, path, has)
		}
	case string:
		if strings.Contains(v, "${env:") {
			path = ofAnyRole.ReplaceAllString(strings.TrimPrefix(path, "."), "kafka.")
			has[named.ReplaceAllString(path, "${1}*")] = true
		}
	}
}

// ofAnyRole finds the beginning of the path of a key with which one role gets in.
var ofAnyRole = regexp.MustCompile(`^kafka\.roles\.[^.]+\.`)

// named finds names that the user gives in a path.
var named = regexp.MustCompile(`((?:^teams|\.sources|\.destinations|\.subscriptions|\.receivers|\.headers|\.env)\.)[^.]+`)

func walkSchema(s map[string]any, path string, text func(path string)) {
	if kinds, ok := s["type"].([]any); ok && slices.Contains(kinds, any("string")) {
		text(strings.TrimPrefix(path, "."))
	}
	properties, _ := s["properties"].(map[string]any)
	for key, inner := range properties {
		walkSchema(inner.(map[string]any), path+"."+key, text)
	}
	if of, ok := s["additionalProperties"].(map[string]any); ok {
		walkSchema(of, path+".*", text)
	}
	if of, ok := s["items"].(map[string]any); ok {
		walkSchema(of, path, text)
	}
}
