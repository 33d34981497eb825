package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ownLedgers is a file whose team beta keeps the ledger of billing, and of refunds in another schema, in a Postgres of its own.
const ownLedgers = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "${env:MAIN}"}
teams:
  alpha:
    sources: {s: {preset: github, secrets: ["0123456789abcdef"]}}
    destinations: {out: {type: log}}
    subscriptions:
      triage: {sources: [s], actions: [{name: run, to: out}]}
      mirror: {sources: [s], actions: [{name: run, to: out}]}
  beta:
    sources: {s: {preset: github, secrets: ["0123456789abcdef"]}}
    destinations: {out: {type: log}}
    subscriptions:
      billing: {sources: [s], postgres: {url: "${env:BILLING}"}, actions: [{name: run, to: out}]}
      invoices: {sources: [s], postgres: {url: "${env:BILLING}"}, actions: [{name: run, to: out}]}
      refunds: {sources: [s], postgres: {url: "${env:BILLING}", schema: refunds}, actions: [{name: run, to: out}]}
`

var ledgersEnv = map[string]string{"MAIN": "postgres://u:p@127.0.0.1/main", "BILLING": "postgres://u:p@127.0.0.1/billing"}

func without(env map[string]string, name string) map[string]string {
	env = maps.Clone(env)
	delete(env, name)
	return env
}

// A process with the stream role has one ledger, runs what has that, and resolves no other ledger's URL.
func TestProcessHasOneLedger(t *testing.T) {
	t.Parallel()
	stream := []Role{RoleStream}
	for _, tt := range []struct {
		name      string
		chosen    []string
		env       map[string]string
		runs      []string
		path, url string
		elsewhere []string
	}{
		{"none chosen", nil, without(ledgersEnv, "BILLING"), []string{"alpha.mirror", "alpha.triage"}, "postgres", "/main", []string{"beta.billing", "beta.invoices", "beta.refunds"}},
		{"one of the top", []string{"alpha/triage"}, without(ledgersEnv, "BILLING"), []string{"alpha.triage"}, "postgres", "/main", []string{"beta.billing", "beta.invoices", "beta.refunds"}},
		{"own", []string{"beta.billing"}, without(ledgersEnv, "MAIN"), []string{"beta.billing"}, "teams.beta.subscriptions.billing.postgres", "/billing", []string{"alpha.mirror", "alpha.triage", "beta.refunds"}},
		{"two of one ledger", []string{"beta/invoices", "beta/b*"}, without(ledgersEnv, "MAIN"), []string{"beta.billing", "beta.invoices"}, "teams.beta.subscriptions.billing.postgres", "/billing", []string{"alpha.mirror", "alpha.triage", "beta.refunds"}},
	} {
		c, problems := load(ownLedgers, tt.env, nil, Options{Roles: stream, Run: true, Subscriptions: tt.chosen})
		if len(problems) > 0 {
			t.Errorf("%s: %v", tt.name, problems)
			continue
		}
		var runs []string
		for _, s := range c.subscriptions() {
			if c.Runs(s.team, s.name) {
				runs = append(runs, s.fullName())
			}
		}
		l := c.Ledger()
		if d := cmp.Diff([]any{tt.runs, tt.path, tt.elsewhere}, []any{runs, l.Path, c.Elsewhere("")}); d != "" || !strings.HasSuffix(l.URL.Reveal(), tt.url) || l.Connections != 8 {
			t.Errorf("%s: %s (%d connections)", tt.name, d, l.Connections)
		}
	}
}

func TestLedgersThatAreRefused(t *testing.T) {
	t.Parallel()
	const billing = `postgres: {url: "${env:BILLING}"}`
	for _, tt := range []struct {
		name     string
		old, new string
		o        Options
		want     string
	}{
		{"two ledgers", "", "", Options{Roles: []Role{RoleStream}, Subscriptions: []string{"alpha/triage", "beta/billing"}},
			"--subscriptions names alpha.triage (postgres, line 3) and beta.billing (teams.beta.subscriptions.billing.postgres, line 15), which have different ledgers: a process has one; start one for each"},
		{"two own ledgers", "", "", Options{Roles: []Role{RoleStream}, Subscriptions: []string{"beta/*"}}, "names beta.billing (teams.beta.subscriptions.billing.postgres, line 15) and beta.refunds"},
		{"a slip", "", "", Options{Roles: []Role{RoleStream}, Subscriptions: []string{"beta/biling"}}, "--subscriptions names beta/biling, and there is no subscription of that name; did you mean beta.billing?"},
		{"no URL", billing, "postgres: {schema: x}", Options{}, "url is missing: Connection URL"},
		{"another database", billing, `postgres: {url: "mysql://u:p@db/x"}`, Options{}, "is not a URL of the form postgres://"},
		{"schema", billing, `postgres: {url: "${env:BILLING}", schema: A-B}`, Options{}, `"A-B" must match`},
		{"two sizes", billing, `postgres: {url: "${env:BILLING}", connections: 9}`, Options{}, "is the ledger of beta.billing, too, with other connections or another transaction_timeout: write the same in both"},
		{"embedded", billing, `postgres: {url: "${env:BILLING}", embedded: true}`, Options{}, "unknown key"},
		{"dev with a database", "", "", Options{Embedded: true}, "`forebay dev` is one process with one ledger: leave postgres out here, or write postgres: {embedded: true} at the top"},
		{"nothing to run", "      triage: {sources: [s], actions: [{name: run, to: out}]}\n      mirror: {sources: [s], actions: [{name: run, to: out}]}\n", "      one: {sources: [s], " + billing + ", actions: [{name: run, to: out}]}\n",
			Options{Roles: []Role{RoleStream}, Run: true}, "every subscription has postgres of its own, so this process would run none"},
	} {
		text := strings.Replace(ownLedgers, tt.old, tt.new, 1)
		_, problems := load(text, ledgersEnv, nil, tt.o)
		if !slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.String(), tt.want) }) {
			t.Errorf("%s: %v, want %q", tt.name, problems, tt.want)
		}
	}
}

// config check says which process runs what, and the file in which no subscription has the ledger of the top needs none.
func TestLedgersAreTold(t *testing.T) {
	t.Parallel()
	text := ownLedgers
	c, problems := load(text, ledgersEnv, nil, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var notes []string
	for _, n := range c.Notes() {
		if strings.Contains(n.Path, ".postgres") {
			notes = append(notes, n.Path+": "+n.Message)
		}
	}
	if d := cmp.Diff([]string{
		"teams.beta.subscriptions.billing.postgres: a process of its own runs it: `forebay serve --roles stream --subscriptions beta.billing,beta.invoices`",
		"teams.beta.subscriptions.refunds.postgres: a process of its own runs it: `forebay serve --roles stream --subscriptions beta.refunds`",
	}, notes); d != "" {
		t.Error(d)
	}
	var ledgers []string
	for _, l := range c.Ledgers() {
		ledgers = append(ledgers, l.Path+" "+l.Schema+": "+strings.Join(l.Subscriptions, ","))
	}
	if d := cmp.Diff([]string{"postgres forebay: alpha.mirror,alpha.triage", "teams.beta.subscriptions.billing.postgres forebay: beta.billing,beta.invoices",
		"teams.beta.subscriptions.refunds.postgres refunds: beta.refunds"}, ledgers); d != "" {
		t.Error(d)
	}
	head, own, _ := strings.Cut(text, "  alpha:\n")
	_, own, _ = strings.Cut(own, "  beta:\n")
	onlyOwn := strings.Replace(head, `postgres: {url: "${env:MAIN}"}`+"\n", "", 1) + "  beta:\n" + own
	if c, problems = load(onlyOwn, without(ledgersEnv, "MAIN"), nil, Options{}); len(problems) > 0 || len(c.Ledgers()) != 2 {
		t.Errorf("a file without a ledger at the top: %v", problems)
	}
	if c, problems = load(strings.Replace(text, `{url: "${env:MAIN}"}`, "{embedded: true}", 1), nil, nil, Options{Embedded: true}); len(problems) > 0 || len(c.Elsewhere("")) > 0 ||
		!slices.Equal(c.TakenTogether(), []string{"beta.billing", "beta.invoices", "beta.refunds"}) {
		t.Errorf("dev: %v", problems)
	}
}

// A team that takes its subscription out keeps the process of its ledger from running no other's; config check, and a process that would run
// nothing, refuse the name.
func TestChosenSubscriptionIsGone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o        Options
		problems int
	}{
		{Options{Roles: []Role{RoleStream}, Run: true, Subscriptions: []string{"beta.billing", "beta.gone"}}, 0},
		{Options{Roles: []Role{RoleStream}, Run: true, Subscriptions: []string{"beta.gone"}}, 1},
		{Options{Roles: []Role{RoleStream}, Subscriptions: []string{"beta.billing", "beta.gone"}}, 1},
		{Options{Roles: []Role{RoleMigrate}, Run: true, Subscriptions: []string{"beta.billing", "beta.gone"}}, 1},
	} {
		c, problems := load(ownLedgers, ledgersEnv, nil, tt.o)
		if len(problems) != tt.problems || len(problems) == 0 && !slices.ContainsFunc(c.Notes(), func(p Problem) bool { return strings.Contains(p.Message, "names beta.gone, and there is no") }) {
			t.Errorf("%v: %v", tt.o, problems)
		}
	}
}

// A result of long work is for the process that made the call: with several ledgers each needs an address of its own.
func TestResultsOfSeveralLedgers(t *testing.T) {
	t.Parallel()
	text := strings.Replace(ownLedgers, "  beta:\n    sources: {s: {preset: github, secrets: [\"0123456789abcdef\"]}}\n    destinations: {out: {type: log}}",
		"  beta:\n    sources: {s: {preset: github, secrets: [\"0123456789abcdef\"]}}\n    destinations: {out: {type: http, url: \"https://out.example\", long: {deadline: 1m}}}", 1)
	for url, want := range map[string]int{"https://agents.example": 1, "${env:AGENTS_URL}": 0} {
		c, problems := load(text+`listen: {agents: "127.0.0.1:8081"}
agents: {public_url: "`+url+`", secrets: ["0123456789abcdef0123456789abcdef"]}
`, map[string]string{"MAIN": ledgersEnv["MAIN"], "BILLING": ledgersEnv["BILLING"], "AGENTS_URL": "https://agents.example"}, nil, Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		got := 0
		for _, n := range c.Notes() {
			if n.Path == "agents.public_url" && strings.Contains(n.Message, "out (beta.billing) reports results later") {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d notes, want %d: %v", url, got, want, c.Notes())
		}
	}
}

// A team's file may name a ledger by what its references may read, and by a URL that reads nothing of the machine.
func TestLedgersInTeamFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, want string }{
		{"${env:BETA_PG}", ""},
		{"${env:MAIN}", "team beta may not read ${env:MAIN}"},
		{"postgres://127.0.0.1/main", "in a team's file: has no user and password"},
		{"postgres://u:p@db.example/x?passfile=/root/.pgpass", "in a team's file: has passfile, a file of the machine's"},
	} {
		dir := t.TempDir()
		main, beta, _ := strings.Cut(ownLedgers, "  beta:\n")
		main += "teams_dir: {path: teams, references: {env: [\"{TEAM}_*\"]}}\n"
		beta = "version: 1\nteams:\n  beta:\n" + strings.ReplaceAll(beta, "${env:BILLING}", tt.url)
		if err := os.Mkdir(filepath.Join(dir, "teams"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"forebay.yaml": main, "teams/beta.yaml": beta} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Load(Options{Path: filepath.Join(dir, "forebay.yaml"), Lookup: func(name string) (string, bool) {
			return "postgres://u:p@db.example/" + strings.ToLower(name), true
		}})
		if tt.want == "" && (err != nil || !c.Ledgers()[1].OfTeam || c.Ledgers()[0].OfTeam) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.url, err, tt.want)
		}
	}
}

// Who adds, changes or takes away a ledger restarts the processes.
func TestLedgersNeedARestart(t *testing.T) {
	t.Parallel()
	text := ownLedgers
	o := Options{Roles: []Role{RoleStream}, Run: true}
	running, problems := load(text, ledgersEnv, nil, o)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for path, change := range map[string][2]string{
		"teams.beta.subscriptions.refunds": {`, postgres: {url: "${env:BILLING}", schema: refunds}`, ""},
		"teams.alpha.subscriptions.triage": {`triage: {`, `triage: {postgres: {url: "${env:BILLING}"}, `},
	} {
		read, problems := load(strings.Replace(text, change[0], change[1], 1), ledgersEnv, nil, o)
		if got := waitingPaths(running, read); len(problems) > 0 || !slices.Equal(got, []string{path + ".postgres"}) {
			t.Errorf("%v need a restart, want %s (%v)", got, path, problems)
		}
	}
}
