package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// takeText is a file of two teams that has what waits and what does not.
const takeText = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "${env:URL}"}
agents: {secrets: [whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz], public_url: "https://one.example.com"}
listen: {agents: "127.0.0.1:9092"}
destinations: {pagers: {type: log, teams: ["*"]}}
teams:
  alpha:
    sources: {github: {preset: github, secrets: [one], share: [beta]}, mail: {preset: github, secrets: [one]}}
    destinations: {log: {type: log}}
    subscriptions:
      triage: {sources: [github], postgres: {url: "${env:OWN}"}, actions: [{name: a, to: log}]}
      all: {sources: [mail], actions: [{name: a, to: pagers}]}
      own: {sources: [mail], actions: [{name: a, to: pagers}]}
  beta:
    sources: {cards: {preset: github, secrets: [one]}}
    destinations: {log: {type: log, timeout: 10s}}
    subscriptions: {risk: {sources: [cards, alpha/github], actions: [{name: a, to: log}]}}
`

// TestTake: what needs a restart keeps its value, for its own key and for the roles that use it; everything else is as it was read. What is shown
// of the two has no secret.
func TestTake(t *testing.T) {
	t.Parallel()
	env := map[string]string{"URL": "postgres://u:first-password@127.0.0.1/x", "OWN": "postgres://u:p@db.example/x", "OTHER": "postgres://u:p@other.example/x"}
	with := func(o Options, edits ...string) *Config {
		t.Helper()
		c, problems := load(strings.NewReplacer(edits...).Replace(takeText), env, nil, o)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return c
	}
	both := Options{Roles: ServeRoles(), Run: true}
	edits := []string{`"${env:OWN}"`, `"${env:OTHER}"`, "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "whsec_AAEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "https://one.example.com", "https://two.example.com",
		"[one], share: [beta]", "[two], share: [beta], topics: {retention: 3d}, max_body: 30MiB", "timeout: 10s", "timeout: 20s",
		"mail: {preset: github, secrets: [one]}", "mail: {preset: github, secrets: [one], topic: events.alpha.post}, big: {preset: github, secrets: [two], max_body: 99MiB}",
		"own: {sources", `own: {postgres: {url: "${env:OWN}"}, sources`, "triage: {sources: [github],", "more: {sources: [big], actions: [{name: a, to: log}]}\n      triage: {sources: [github], types: [x.*],"}
	for _, tt := range []struct {
		roles Options
		want  []string
	}{
		{both, []string{" agents.public_url", "alpha teams.alpha.sources.big", "alpha teams.alpha.sources.github.max_body", "alpha teams.alpha.sources.github.topics.retention",
			"alpha teams.alpha.sources.mail.topic", "alpha teams.alpha.subscriptions.more", "alpha teams.alpha.subscriptions.own.postgres"}},
		{Options{Roles: []Role{RoleIntake}, Run: true}, []string{" agents.public_url", "alpha teams.alpha.sources.big", "alpha teams.alpha.sources.github.max_body", "alpha teams.alpha.sources.mail.topic"}},
	} {
		running, read := with(tt.roles), with(tt.roles, edits...)
		before, _ := read.YAML()
		taken, waits := running.Take(read, Taking{Roles: tt.roles.Roles, Fits: func(c *Config, team, source string) bool { return c.MaxBody(team, source) <= 25<<20 }})
		var got, paths []string
		for _, w := range waits {
			got, paths = append(got, w.Team+" "+w.Path), append(paths, w.Path)
		}
		if len(tt.roles.Roles) == 1 { // what decides about subscriptions is the stream's
			got = cut(got, "subscriptions")
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%v: %s", tt.roles.Roles, d)
		}
		if after, _ := read.YAML(); string(after) != string(before) {
			t.Error("what was read has changed")
		}
		if got := taken.Agents; got.Secrets[0].Reveal() != "whsec_AAEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz" || got.PublicURL != "https://one.example.com" {
			t.Errorf("agents are %+v", got)
		}
		github, alpha := taken.Teams["alpha"].Sources["github"], taken.Teams["alpha"]
		if github.Secrets[0].Value.Reveal() != "two" || taken.MaxBody("alpha", "github") != running.MaxBody("alpha", "github") || github.Topics != running.Teams["alpha"].Sources["github"].Topics {
			t.Errorf("the source is %+v", github)
		}
		if alpha.Sources["big"] != nil || alpha.Subscriptions["more"] != nil || alpha.Sources["mail"].Topic != "events.alpha.mail" || alpha.Subscriptions["triage"].Types[0] != "x.*" ||
			taken.Teams["beta"].Destinations["log"].Timeout.String() != "20s" {
			t.Error("not what was read but for what waits")
		}
		if !taken.LeftOut("alpha") || taken.LeftOut("beta") || read.LeftOut("alpha") {
			t.Error("what waits and is new is left out, and nothing else")
		}
		if uses := taken.usesOf(NamedDestination{Destination: alpha.Destinations["log"], Team: "alpha", Name: "log"}); len(uses) != 1 || uses[0].sub != alpha.Subscriptions["triage"] {
			t.Errorf("destination log is used by %v", uses)
		}
		if one, two := running.ledgerOf(namedSubscription{running.Teams["alpha"].Subscriptions["triage"], "alpha", "triage"}), taken.ledgerOf(namedSubscription{alpha.Subscriptions["triage"], "alpha", "triage"}); one != two {
			t.Errorf("the ledger is %v, and was %v", two, one)
		}
		shown := strings.Join(append(read.Shown(paths...), taken.Shown(paths...)...), " ")
		if strings.Contains(shown, "whsec") || strings.Contains(shown, "password") || strings.Contains(shown, "other.example") {
			t.Errorf("shown: %s", shown)
		}
		if again, waits := taken.Take(with(tt.roles), Taking{Roles: tt.roles.Roles}); len(waits) != 0 || again.Teams["alpha"].Sources["github"].Secrets[0].Value.Reveal() != "one" {
			t.Errorf("what was taken back waits: %v", waits)
		}
	}
	at := func(url, wait string) *Config {
		return with(both, "agents: {", `intake: {public_url: "https://`+url+`.example.com", body_timeout: `+wait+"}\nagents: {", "mail: {preset: github,", "mail: {preset: square,")
	}
	if taken, waits := at("one", "20s").Take(at("two", "30s"), Taking{Roles: both.Roles}); len(waits) != 1 || waits[0].Path != "intake.body_timeout" || taken.Intake.BodyTimeout.String() != "20s" ||
		taken.Intake.PublicURL != "https://two.example.com" || taken.Teams["alpha"].Sources["mail"].PublicURL != "https://two.example.com/v1/in/alpha/mail" {
		t.Errorf("the URL that providers sign: %v, %+v", waits, taken.Intake)
	}
	running := with(both)
	if taken, waits := running.Take(with(both, "[cards, alpha/github]", "[cards, alpha/mail]"), Taking{}); len(waits) != 1 || taken.Barred("beta", "risk") != "" || taken.Teams["beta"].Subscriptions["risk"].Sources[1] != "alpha/github" {
		t.Errorf("a source that is not shared: %v", waits)
	}
	if taken, waits := running.Take(with(both, ", share: [beta]", ""), Taking{}); len(waits) != 0 || taken.Barred("beta", "risk") == "" {
		t.Errorf("a source that is shared no more: %v", waits)
	}
}

// TestTakeLogin: another user or password of a ledger is taken at once, also beside what waits; another place is not, with nothing of its login.
func TestTakeLogin(t *testing.T) {
	t.Parallel()
	const first, second = "postgres://u:one@127.0.0.1/x?application_name=a", "postgres://v:two@127.0.0.1/x?application_name=a"
	const userOne, userTwo = "postgres://u:one@127.0.0.1:5432", "postgres://v:two@127.0.0.1:5432" // whose database is called as the user
	for _, tt := range []struct {
		first, url, edit string // what the reference led to and leads to, and what else changes
		want             string
		waits            int
	}{
		{first, second, "", second, 0},
		{first, second, ", connections: 9", second, 1},
		{first, strings.Replace(second, "127.0.0.1", "127.0.0.2", 1), "", first, 1},
		{first, strings.Replace(second, "=a", "=b", 1), "", first, 1},
		{userOne, userTwo, "", userOne, 1},
		{userOne + "?dbname=", userTwo + "?dbname=", "", userOne + "?dbname=", 1},
		{userOne, strings.Replace(userOne, "one", "two", 1), "", strings.Replace(userOne, "one", "two", 1), 0},
		{userOne + "?dbname=x", userTwo + "?dbname=x", "", userTwo + "?dbname=x", 0},
	} {
		for _, own := range []bool{false, true} {
			of, o := "URL", Options{Roles: ServeRoles(), Run: true}
			if own {
				of, o.Subscriptions = "OWN", []string{"alpha.triage"}
			}
			read := func(url, edit string) *Config {
				env := map[string]string{"URL": tt.first, "OWN": tt.first, of: url}
				c, problems := load(strings.Replace(takeText, "${env:"+of+"}\"", "${env:"+of+"}\""+edit, 1), env, nil, o)
				if len(problems) > 0 {
					t.Fatal(problems)
				}
				return c
			}
			running := read(tt.first, "")
			taken, waits := running.Take(read(tt.url, tt.edit), Taking{Roles: o.Roles})
			if got := taken.LedgerNow(running.Ledger()).URL.Reveal(); got != tt.want || len(waits) != tt.waits {
				t.Errorf("of its own: %t, %s%s: it logs in by %s, and %v waits", own, tt.url, tt.edit, got, waits)
			}
			if own {
				delete(taken.Teams["alpha"].Subscriptions, "triage")
				if got := taken.LedgerNow(running.Ledger()).URL.Reveal(); got != tt.first {
					t.Errorf("a subscription that is taken out leaves %s", got)
				}
			}
		}
	}
}

// TestTakeLoginOfNew: a new subscription has the ledger of one that runs, by what is written, and the file of the reference leads elsewhere by now.
func TestTakeLoginOfNew(t *testing.T) {
	t.Parallel()
	const first, login, elsewhere = "postgres://u:one@127.0.0.1/x", "postgres://v:two@127.0.0.1/x", "postgres://v:two@127.0.0.2/x"
	read := func(url string, edits ...string) *Config {
		c, problems := load(strings.NewReplacer(edits...).Replace(takeText), map[string]string{"URL": first, "OWN": url}, nil, Options{Roles: ServeRoles(), Run: true, Subscriptions: []string{"alpha.*"}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return c
	}
	own := `sources: [mail], postgres: {url: "${env:OWN}"}, actions`
	all := []string{"all: {sources: [mail], actions", "all: {" + own, "own: {sources: [mail], actions", "own: {" + own}
	aaa := append([]string{"triage:", "aaa: {" + own + ": [{name: a, to: log}]}\n      triage:"}, all...)
	running := read(first, all...)
	start := running.Ledger()
	start.Path = "teams.alpha.subscriptions.own.postgres"
	start.OfTeam = true
	for url, want := range map[string]string{elsewhere: first, login: login} {
		taken, _ := running.Take(read(url, aaa...), Taking{Roles: ServeRoles()})
		for _, gone := range []bool{false, true} {
			if gone {
				delete(taken.Teams["alpha"].Subscriptions, "own")
			}
			if got := taken.LedgerNow(start); got.URL.Reveal() != want || got.Path != start.Path || !got.OfTeam {
				t.Errorf("it is taken out: %t; it logs in by %s, want %s; of %s, of a team: %t", gone, got.URL.Reveal(), want, got.Path, got.OfTeam)
			}
		}
	}
	taken, _ := running.Take(read(login, aaa...), Taking{Roles: ServeRoles()})
	taken.Teams["alpha"].Subscriptions["own"] = running.Teams["alpha"].Subscriptions["own"] // its team's file has problems
	if got := taken.LedgerNow(start).URL.Reveal(); got != first {
		t.Errorf("the subscription that it began with says %s, and it logs in by %s", first, got)
	}
}

// TestTakeLong: a process that does not listen for results takes no destination that reports them later; what names a new one stays as it was.
func TestTakeLong(t *testing.T) {
	t.Parallel()
	load := func(edits ...string) *Config {
		t.Helper()
		c, problems := load(strings.NewReplacer(edits...).Replace(longText), nil, nil, Options{Roles: ServeRoles(), Run: true})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return c
	}
	long := []string{"{type: http, url: https://a.example.com}", "{type: http, url: https://a.example.com, long: {deadline: 1h}}", "jobs: {type: http, url: https://b.example.com, teams", "late: {type: http, url: https://c.example.com, long: {deadline: 1h}, teams: [alpha]}\n  jobs: {type: http, url: https://b.example.com, teams",
		"{name: a, to: jobs}", "{name: a, to: jobs}, {name: b, to: late}", "types: [x.*]", "types: [y.*]",
		"url: https://d.example.com", "url: https://e.example.com, long: {deadline: 1h}", "sources: [github], actions: [{name: a, to: log}]", "sources: [github], actions: [{name: a, to: idle}]"}
	listens := []string{"version: 1", "version: 1\nagents: {secrets: [whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz], public_url: \"https://one.example.com\"}\nlisten: {agents: \"127.0.0.1:9092\"}"}
	running, read := load(), load(append(long, listens...)...)
	taken, waits := running.Take(read, Taking{Roles: ServeRoles()})
	var got []string
	for _, w := range waits {
		got = append(got, w.Path)
	}
	if d := cmp.Diff([]string{"agents.public_url", "destinations.late", "listen.agents", "teams.alpha.destinations.idle.long", "teams.alpha.destinations.idle.url",
		"teams.alpha.destinations.log.long", "teams.alpha.subscriptions.both", "teams.alpha.subscriptions.later"}, got); d != "" {
		t.Error(d)
	}
	for _, d := range taken.AllDestinations() {
		if d.Long != nil {
			t.Errorf("%s is taken with long", d.FullName())
		}
	}
	if alpha := taken.Teams["alpha"]; alpha.Destinations["idle"] != running.Teams["alpha"].Destinations["idle"] || alpha.Subscriptions["later"].Actions[0].To != "log" {
		t.Error("an endpoint that answers 202 is called without the URL for its result")
	}
	if alpha := taken.Teams["alpha"]; len(alpha.Subscriptions["both"].Actions) != 1 || alpha.Subscriptions["one"].Types[0] != "y.*" || read.Destinations["late"] == nil || read.Teams["alpha"].Destinations["log"].Long == nil {
		t.Error("not what was read but for what waits, or what was read has changed")
	}
	if taken, waits := load(listens...).Take(read, Taking{Roles: ServeRoles()}); len(waits) != 0 || taken.Destinations["late"].Long == nil {
		t.Errorf("a process that listens keeps back %v", waits)
	}
}

const longText = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "postgres://u:p@127.0.0.1/x"}
destinations:
  jobs: {type: http, url: https://b.example.com, teams: ["*"]}
teams:
  alpha:
    sources: {github: {preset: github, secrets: [one]}}
    destinations: {log: {type: http, url: https://a.example.com}, idle: {type: http, url: https://d.example.com}}
    subscriptions:
      later: {sources: [github], actions: [{name: a, to: log}]}
      one: {sources: [github], types: [x.*], actions: [{name: a, to: log}]}
      both: {sources: [github], actions: [{name: a, to: jobs}]}
`

// cut returns the texts that have no such part.
func cut(list []string, part string) (rest []string) {
	for _, s := range list {
		if !strings.Contains(s, part) {
			rest = append(rest, s)
		}
	}
	return rest
}

// TestShown: a value at any path, in one line, and no secret.
func TestShown(t *testing.T) {
	t.Parallel()
	c, problems := load(takeText, map[string]string{"URL": "postgres://u:first-password@127.0.0.1/x", "OWN": "postgres://u:p@db.example/x"}, nil, Options{Run: true})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	paths := []string{"postgres.url", "agents.secrets[0]", "teams.beta.destinations.log.timeout", "teams.beta.subscriptions.risk.sources", "teams.beta.none", "agents.secrets[7]", "kafka.brokers[0].x"}
	if d := cmp.Diff([]string{"${env:URL}", "<redacted>", "10s", "[cards, alpha/github]", "", "", ""}, c.Shown(paths...)); d != "" {
		t.Error(d)
	}
}
