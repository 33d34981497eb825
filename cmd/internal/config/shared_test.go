package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// twoTeams is a file with two teams, which share a destination; beta has one of its own of that name's neighbour.
const twoTeams = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: "${env:POSTGRES}"}
destinations:
  pagers:
    type: slack
    token: "${env:SLACK_TOKEN}"
    params: {channel: C0123456789}
    teams: [alpha, beta]
    rate: {limit: 5}
teams:
  alpha:
    sources: {s: {preset: github, secrets: ["${env:GITHUB}"]}}
    destinations: {mail: {type: log}}
    subscriptions:
      one: {sources: [s], actions: [{name: page, to: pagers, params: {text: "from ${env:ALPHA}"}}]}
  beta:
    sources: {s: {preset: github, secrets: ["${env:GITHUB}"]}}
    subscriptions:
      two: {sources: [s], actions: [{name: page, to: pagers, params: {text: "from beta ${env:BETA}", channel: C0000000001}}]}
  gamma:
    sources: {s: {preset: github, secrets: ["${env:GITHUB}"]}}
    destinations: {pagers: {type: slack, token: "${env:GAMMA_TOKEN}", params: {channel: C0123456789}}}
    subscriptions:
      three: {sources: [s], actions: [{name: page, to: pagers, params: {text: "from ${env:GAMMA}"}}]}
`

var twoTeamsEnv = map[string]string{"SLACK_TOKEN": "xoxb-shared", "ALPHA": "alpha-word", "BETA": "beta-word", "GAMMA": "gamma-word", "GAMMA_TOKEN": "xoxb-gamma",
	"POSTGRES": "postgres://u:p@127.0.0.1/forebay", "GITHUB": "github-secret"}

// edited returns the file of two teams with something else in it.
func edited(t *testing.T, oldNew ...string) string {
	t.Helper()
	text := twoTeams
	for i := 0; i < len(oldNew); i += 2 {
		if strings.Count(text, oldNew[i]) != 1 {
			t.Fatalf("%q is there %d times", oldNew[i], strings.Count(text, oldNew[i]))
		}
		text = strings.Replace(text, oldNew[i], oldNew[i+1], 1)
	}
	return text
}

func loadShared(t *testing.T, oldNew ...string) *Config {
	t.Helper()
	c, problems := load(edited(t, oldNew...), twoTeamsEnv, nil, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return c
}

func fullNames(list []NamedDestination) (names []string) {
	for _, d := range list {
		names = append(names, d.FullName())
	}
	return names
}

// A name leads to the team's own destination, or to the shared one; what is known of the shared one is of all of its teams.
func TestSharedDestinations(t *testing.T) {
	t.Parallel()
	c := loadShared(t)
	if d := cmp.Diff([]string{"pagers", "alpha/mail", "gamma/pagers"}, fullNames(c.AllDestinations())); d != "" {
		t.Error(d)
	}
	for _, tt := range []struct{ team, name, want string }{
		{"alpha", "pagers", "pagers"}, {"beta", "pagers", "pagers"}, {"gamma", "pagers", "gamma/pagers"},
		{"alpha", "mail", "alpha/mail"}, {"beta", "mail", ""}, {"", "pagers", ""}, {"alpha", "none", ""},
	} {
		d, ok := c.Destination(tt.team, tt.name)
		if ok != (tt.want != "") || ok && d.FullName() != tt.want {
			t.Errorf("%s of team %s is %v", tt.name, tt.team, d)
		}
	}
	for team, want := range map[string][]string{"alpha/one": {"alpha/mail", "pagers"}, "beta/two": {"pagers"}, "gamma/three": {"gamma/pagers"}} {
		team, sub, _ := strings.Cut(team, "/")
		if d := cmp.Diff(want, fullNames(c.DestinationsOf(team, sub))); d != "" {
			t.Error(d)
		}
	}
	shared, _ := c.Destination("alpha", "pagers")
	if shared.Concurrency != 64 || shared.Rate.Burst != 5 || shared.Retry.Max != mustDuration("20h") {
		t.Errorf("defaults %+v", shared.Destination)
	}
	params := map[string]map[string]any{
		"alpha.one/page": {"text": "from alpha-word"},
		"beta.two/page":  {"text": "from beta beta-word", "channel": "C0000000001"},
	}
	if d := cmp.Diff(params, c.ActionParams(shared)); d != "" {
		t.Error(d)
	}
	var hidden []string
	for _, s := range c.HiddenOf(shared) {
		hidden = append(hidden, s.Reveal())
	}
	if slices.Sort(hidden); !slices.Equal(hidden, []string{"alpha-word", "beta-word", "xoxb-shared"}) {
		t.Errorf("of the shared one is hidden %v", hidden)
	}
}

// With ["*"] teams of other files may use it, too, and no team has to be named.
func TestSharedWithEveryTeam(t *testing.T) {
	t.Parallel()
	c := loadShared(t, "teams: [alpha, beta]", `teams: ["*"]`, `    destinations: {pagers: {type: slack, token: "${env:GAMMA_TOKEN}", params: {channel: C0123456789}}}`+"\n", "")
	if d, ok := c.Destination("gamma", "pagers"); !ok || d.FullName() != "pagers" || len(c.ActionParams(d)) != 3 {
		t.Errorf("%v %v", d, ok)
	}
	shown, err := c.YAML()
	if want := "  pagers:\n    type: slack\n    token: ${env:SLACK_TOKEN}\n    teams:\n      - '*'\n    timeout: 10s\n"; err != nil || !strings.Contains(string(shown), want) {
		t.Errorf("no\n%s\nin\n%s%v", want, shown, err)
	}
	again, problems := load(string(shown), twoTeamsEnv, nil, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if twice, _ := again.YAML(); string(twice) != string(shown) {
		t.Error(cmp.Diff(string(shown), string(twice)))
	}
}

func TestSharedProblems(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit []string
		want string
	}{
		"no teams":         {[]string{"    teams: [alpha, beta]\n", ""}, "forebay.yaml:5: destinations.pagers: teams is missing: which teams may use it"},
		"no team":          {[]string{"[alpha, beta]", "[]"}, "forebay.yaml:9: destinations.pagers.teams: is empty"},
		"a word":           {[]string{"[alpha, beta]", "alpha"}, `destinations.pagers.teams: expected a list ([a, b]), found "alpha"`},
		"a slip":           {[]string{"[alpha, beta]", "[alpha, betta]"}, `destinations.pagers.teams[1]: there is no team "betta"; did you mean beta?`},
		"nobody":           {[]string{"[alpha, beta]", "[alpha, beta, sales]"}, `destinations.pagers.teams[2]: there is no team "sales"`},
		"twice":            {[]string{"[alpha, beta]", "[alpha, beta, alpha]"}, "destinations.pagers.teams[2]: team alpha is listed twice"},
		"all and one":      {[]string{"[alpha, beta]", `["*", beta]`}, "destinations.pagers.teams: * is all teams"},
		"a star":           {[]string{"[alpha, beta]", "[*]"}, `; a value that begins with * needs quotes: ["*"]`},
		"own and shared":   {[]string{"{mail: {type: log}}", "{mail: {type: log}, pagers: {type: log}}"}, "forebay.yaml:14: teams.alpha.destinations.pagers: team alpha has a shared destination of that name already (forebay.yaml:5)"},
		"own under all":    {[]string{"[alpha, beta]", `["*"]`}, "teams.gamma.destinations.pagers: team gamma has a shared destination of that name already"},
		"not for the team": {[]string{"[alpha, beta]", "[alpha]"}, "forebay.yaml:20: teams.beta.subscriptions.two.actions[0].to: shared destination pagers is not for team beta; where it is to be, add beta to destinations.pagers.teams (forebay.yaml:9)"},
		"own with teams":   {[]string{"{mail: {type: log}}", "{mail: {type: log, teams: [alpha]}}"}, "teams.alpha.destinations.mail.teams: this destination is team alpha's own"},
		"a slip in to":     {[]string{`{name: page, to: pagers, params: {text: "from beta`, `{name: page, to: pager, params: {text: "from beta`}, `two.actions[0].to: the team has no destination "pager"; did you mean pagers?`},
		"params of a team": {[]string{`channel: C0000000001`, `chanel: C0000000001`}, "forebay.yaml:20: teams.beta.subscriptions.two.actions[0].params.chanel"},
		"a bound":          {[]string{"rate: {limit: 5}", "concurrency: 5000"}, "forebay.yaml:10: destinations.pagers.concurrency: 5000 is more than 1000"},
		"drop and park":    {[]string{"rate: {limit: 5}", "rate: {limit: 5, on_limit: drop}"}, "two.actions[0].on_dead: must be continue: destination pagers drops"},
		"commands are off": {[]string{"teams:\n  alpha:", "  run: {type: exec, command: [a], teams: [alpha]}\nteams:\n  alpha:"}, "destinations.run.type: exec is off"},
		"forgets too soon": {[]string{"teams:\n  alpha:", "  db: {type: postgres, database: \"postgres://u:p@db.example/x\", statement: SELECT 1, key_retention: 30d, teams: [alpha]}\nteams:\n  alpha:", `{name: page, to: pagers, params: {text: "from ${env:ALPHA}"}}`, "{name: x, to: db}"}, "one.actions[0].to: key_retention 30d of destination db is too short: an action can be retried and replayed for 31d "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := load(edited(t, tt.edit...), twoTeamsEnv, nil, Options{})
			if !strings.Contains(problems.Error(), tt.want) {
				t.Errorf("no %q in\n%v", tt.want, problems)
			}
		})
	}
}

// A shared destination writes to any topic that is not Forebay's own, and counts once however many teams use it.
func TestSharedWithRights(t *testing.T) {
	t.Parallel()
	c := loadShared(t, "teams:\n  alpha:", "  all: {type: kafka, topic: company.audit, teams: [alpha]}\n"+
		"  run: {type: postgres, statement: SELECT 1, concurrency: 7, teams: [alpha, beta]}\nteams:\n  alpha:", "postgres: {", "postgres: {statements: true, ")
	if got := c.Statements(); got != 7 {
		t.Errorf("%d statements", got)
	}
}

// What is done is remembered for as long as the team that may longest can attempt it.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	db := "  db: {type: postgres, database: \"postgres://u:p@db.example/x\", statement: SELECT 1, teams: [alpha, beta]}\nteams:\n  alpha:"
	for _, longest := range []string{"one", "two"} {
		c := loadShared(t, "teams:\n  alpha:", db, `{name: page, to: pagers, params: {text: "from ${env:ALPHA}"}}`, "{name: x, to: db}",
			`{name: page, to: pagers, params: {text: "from beta ${env:BETA}", channel: C0000000001}}`, "{name: x, to: db}", longest+": {", longest+": {retention: {dead: 200d}, ")
		d, _ := c.Destination("alpha", "db")
		if got := Duration(*d.about().Memory.For); got != mustDuration("201d") {
			t.Errorf("%s: %s", longest, got)
		}
	}
}

// Files of the teams directory are not trusted with what is for all teams: they use it, and neither make nor take a name from it.
func TestTeamFilesShareNothing(t *testing.T) {
	t.Parallel()
	v := newVillage(t, "")
	write := v.write
	main := v.path("forebay.yaml")
	write("forebay.yaml", `version: 1
kafka: {brokers: ["localhost:9092"]}
postgres: {url: "postgres://u:p@127.0.0.1/forebay"}
teams_dir: teams
destinations:
  everybody: {type: log, teams: ["*"]}
  some: {type: log, teams: [a]}
`)
	const uses = "teams: {%: {sources: {s: {preset: github, secrets: [x]}}, subscriptions: {sub: {sources: [s], actions: [{name: x, to: TO}]}}}}\n"
	team := func(name, to string) {
		write("teams/"+name+".yaml", strings.NewReplacer("%", name, "TO", to).Replace(uses))
	}
	team("a", "some")
	team("b", "everybody")
	if _, err := Load(Options{Path: main}); err != nil {
		t.Fatal(err)
	}
	team("b", "some")
	write("teams/c.yaml", "destinations:\n  mine: {type: log, teams: [c]}\nteams: {c: {destinations: {everybody: {type: log}}}}\n")
	write("teams/d.yaml", "kafka: {brokers: [a]}\nteams: {d: {destinations: {x: {type: log, teams: [a]}}}}\n")
	_, err := Load(Options{Path: main})
	for _, want := range []string{
		"teams/b.yaml:1: teams.b.subscriptions.sub.actions[0].to: shared destination some is not for team b; where it is to be, add b to destinations.some.teams (" + main + ":7)",
		"teams/c.yaml:1: destinations: stands in the main file only",
		"teams/c.yaml:3: teams.c.destinations.everybody: team c has a shared destination of that name already (" + main + ":6)",
		"teams/d.yaml:1: kafka: stands in the main file only",
		"teams/d.yaml:2: teams.d.destinations.x.teams: this destination is team d's own",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// The intake needs none of the secrets of destinations; a change of a shared one needs no restart.
func TestSharedByRoleAndReload(t *testing.T) {
	t.Parallel()
	if _, problems := load(twoTeams, map[string]string{"GITHUB": "x"}, nil, Options{Roles: []Role{RoleIntake}}); len(problems) > 0 {
		t.Errorf("the intake: %v", problems)
	}
	if _, problems := load(twoTeams, nil, nil, Options{Roles: []Role{RoleStream}}); !strings.Contains(problems.Error(), "destinations.pagers.token: environment variable SLACK_TOKEN is not set") {
		t.Errorf("the stream: %v", problems)
	}
	before := loadShared(t)
	for _, edit := range [][]string{{"limit: 5", "limit: 6"}, {"[alpha, beta]", "[beta, alpha]"}} {
		if got := waitingPaths(before, loadShared(t, edit...)); len(got) != 0 {
			t.Errorf("%v needs a restart of %v", edit, got)
		}
	}
	moved := loadShared(t, "destinations: {mail: {type: log}}", "destinations: {}", "teams:\n  alpha:", "  mail: {type: log, teams: [alpha]}\nteams:\n  alpha:")
	if got := waitingPaths(before, moved); len(got) != 0 {
		t.Errorf("a destination that is shared now needs a restart of %v", got)
	}
}
