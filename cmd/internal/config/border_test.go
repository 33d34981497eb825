package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// village is a directory with a main file, team files and their secrets.
type village struct {
	t   *testing.T
	dir string
	env map[string]string
}

// newVillage writes a main file with these references; empty: teams_dir is a plain path.
func newVillage(t *testing.T, references string) *village {
	t.Helper()
	v := &village{t: t, dir: t.TempDir(), env: map[string]string{}}
	dir := "teams"
	if references != "" {
		dir = "{path: teams, references: " + strings.ReplaceAll(references, "DIR", v.dir) + "}"
	}
	v.write("forebay.yaml", "version: 1\nkafka: {brokers: [\"localhost:9092\"]}\npostgres: {url: \"${env:LEDGER}\"}\nteams_dir: "+dir+"\n")
	v.env["LEDGER"] = "postgres://u:canary@127.0.0.1/forebay"
	return v
}

func (v *village) path(name string) string { return filepath.Join(v.dir, name) }

func (v *village) write(name, text string) {
	v.t.Helper()
	if err := os.MkdirAll(filepath.Dir(v.path(name)), 0o755); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(v.path(name), []byte(text), 0o600); err != nil {
		v.t.Fatal(err)
	}
}

func (v *village) link(to, name string) {
	v.t.Helper()
	if err := os.MkdirAll(filepath.Dir(v.path(name)), 0o755); err != nil {
		v.t.Fatal(err)
	}
	if err := os.Symlink(to, v.path(name)); err != nil {
		v.t.Fatal(err)
	}
}

// team writes the file of a team with a source that has this secret, on line 5.
func (v *village) team(name, secret string) {
	v.write("teams/"+name+".yaml", "teams:\n  "+name+":\n    sources:\n      s: {preset: github,\n        secrets: [\""+secret+"\"]}\n")
}

// load returns the configuration, or everything that is wrong with it.
func (v *village) load(roles ...Role) (*Config, string) {
	v.t.Helper()
	c, err := Load(Options{Path: v.path("forebay.yaml"), Roles: roles, Lookup: func(name string) (string, bool) { s, ok := v.env[name]; return s, ok }})
	if err != nil {
		return nil, err.Error()
	}
	return c, ""
}

// secret returns the secret of a team's source, or what is wrong.
func (v *village) secret(team string) string {
	v.t.Helper()
	c, wrong := v.load()
	if wrong != "" {
		return wrong
	}
	return c.Teams[team].Sources["s"].Secrets[0].Value.Reveal()
}

const usualReferences = `{env: ["{TEAM}_*"], files: ["DIR/secrets/{team}/*"]}`

// TestReferencesOfTeamFiles: what is listed is read, and nothing else is, by whatever name somebody gives it.
func TestReferencesOfTeamFiles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		references, team, reference string
		want                        string // the secret, or what is said
	}{
		"nothing by default":            {"", "a", "${env:A_TOKEN}", "teams/a.yaml:5: teams.a.sources.s.secrets[0]: a team's file may not read ${env:A_TOKEN}: the main file (DIR/forebay.yaml:4) allows it nothing; `teams_dir: {path: teams, references: {env: [\"TEAM_{TEAM}_*\"]}}` there lets each team read its own"},
		"no file by default":            {"", "a", "${file:DIR/secrets/a/key}", "`teams_dir: {path: teams, references: {files: [\"/run/secrets/{team}/*\"]}}` there"},
		"its variable":                  {usualReferences, "a", "${env:A_TOKEN}", "of a"},
		"its variable with a dash":      {usualReferences, "a-b", "${env:A_B_TOKEN}", "of a-b"},
		"its file":                      {usualReferences, "a", "${file:DIR/secrets/a/key}", "file of a"},
		"the ledger's":                  {usualReferences, "a", "${env:LEDGER}", "teams/a.yaml:5: teams.a.sources.s.secrets[0]: team a may not read ${env:LEDGER}, only A_*: use such a name, or have teams_dir.references.env in the main file (DIR/forebay.yaml:4) changed"},
		"another team's":                {usualReferences, "a", "${env:B_TOKEN}", "team a may not read ${env:B_TOKEN}, only A_*"},
		"that of a longer name":         {usualReferences, "a", "${env:A_B_TOKEN}", "teams/a.yaml:5: teams.a.sources.s.secrets[0]: ${env:A_B_TOKEN} also matches the pattern of team a-b"},
		"that of the main file's team":  {usualReferences, "a", "${env:A_MAIN_TOKEN}", "also matches the pattern of team a-main"},
		"that of a shorter name":        {usualReferences, "a-b", "${env:A_TOKEN}", "team a-b may not read ${env:A_TOKEN}, only A_B_*"},
		"small letters":                 {usualReferences, "a", "${env:a_token}", "may not read"},
		"the prefix is no wildcard":     {usualReferences, "a", "${env:A}", "may not read"},
		"no variable's name":            {usualReferences, "a", "${env:A_ x}", "may not read"},
		"hidden in a text":              {usualReferences, "a", "x ${env:A_TOKEN}${env:LEDGER}", "may not read ${env:LEDGER}"},
		"another scheme":                {usualReferences, "a", "${ENV:LEDGER}", "is not a reference"},
		"another file":                  {usualReferences, "a", "${file:DIR/secrets/b/key}", "may not read ${file:DIR/secrets/b/key}, only DIR/secrets/a/*"},
		"the process's environment":     {usualReferences, "a", "${file:/proc/self/environ}", "may not read ${file:/proc/self/environ}"},
		"up and down":                   {usualReferences, "a", "${file:DIR/secrets/a/../b/key}", "a whole path has neither . nor .. in it"},
		"up, by a name that matches":    {usualReferences, "a", "${file:DIR/secrets/a/..}", "a whole path has neither . nor .. in it"},
		"a path that is not whole":      {usualReferences, "a", "${file:secrets/a/key}", "may not read ${file:secrets/a/key}, only DIR/secrets/a/*"},
		"its file, from the team's":     {usualReferences, "a", "${file:../secrets/a/key}", "file of a"},
		"another's, from the team's":    {usualReferences, "a", "${file:../secrets/a/../b/key}", "may not read ${file:../secrets/a/../b/key}"},
		"a list from the main file's":   {`{files: ["secrets/{team}/*"]}`, "a", "${file:../secrets/a/key}", "file of a"},
		"another's by such a list":      {`{files: ["secrets/{team}/*"]}`, "a", "${file:../secrets/b/key}", "may not read"},
		"a link, by such a list":        {`{files: ["secrets/{team}/*"]}`, "a", "${file:../secrets/a/link}", "no link may lead out of DIR/secrets/a"},
		"twice a slash":                 {usualReferences, "a", "${file:DIR/secrets//a/key}", "a whole path has"},
		"the star and a slash":          {usualReferences, "a", "${file:DIR/secrets/a/deep/key}", "may not read"},
		"a link to another team's":      {usualReferences, "a", "${file:DIR/secrets/a/link}", "DIR/secrets/a/link, in which no link may lead out of DIR/secrets/a"},
		"a link with a whole path":      {usualReferences, "a", "${file:DIR/secrets/a/whole}", "no link may lead out"},
		"a link that stays":             {usualReferences, "a", "${file:DIR/secrets/a/mounted}", "file of a"},
		"a directory that is a link":    {`{files: ["DIR/secrets/{team}/*/*"]}`, "a", "${file:DIR/secrets/a/dir/key}", "no link may lead out"},
		"a pipe":                        {usualReferences, "a", "${file:DIR/secrets/a/pipe}", "is not a plain file"},
		"a directory":                   {usualReferences, "a", "${file:DIR/secrets/a/deep}", "is not a plain file"},
		"what a file has is no more":    {usualReferences, "a", "${file:DIR/secrets/a/nested}", "${env:LEDGER}"},
		"an escape":                     {usualReferences, "a", "$${env:LEDGER}", "${env:LEDGER}"},
		"an escape of an escape":        {usualReferences, "a", "$$${env:LEDGER}", "$${env:LEDGER}"},
		"the main file's own":           {`{env: ["{TEAM}_*", "*"]}`, "a", "${env:LEDGER}", "${env:LEDGER} is the process's own, and for no team: use another name, such as TEAM_A_TOKEN"},
		"the process's, by its team":    {`{env: ["{TEAM}_*"]}`, "aws", "${env:AWS_SECRET_ACCESS_KEY}", "is the process's own"},
		"the process's, by its name":    {`{env: ["{TEAM}_*", AWS_TOKEN]}`, "aws", "${env:AWS_TOKEN}", "of aws"},
		"a longer team's, by its name":  {`{env: ["{TEAM}_*", A_B_TOKEN]}`, "a", "${env:A_B_TOKEN}", "of a-b"},
		"what libpq reads":              {`{env: ["PG*"]}`, "a", "${env:PGPASSWORD}", "is the process's own"},
		"for every team":                {`{env: ["ALL_*"], files: ["DIR/secrets/all"]}`, "a", "${env:ALL_TOKEN}", "of all"},
		"one file for every team":       {`{env: ["ALL_*"], files: ["DIR/secrets/all"]}`, "a", "${file:DIR/secrets/all}", "file of all"},
		"the name in the middle":        {`{env: ["X_{TEAM}_KEY"]}`, "b", "${env:X_B_KEY}", "of b"},
		"not the end of a longer one":   {`{env: ["*{TEAM}_KEY"]}`, "b", "${env:X_A_B_KEY}", "also matches the pattern of team a-b"},
		"nobody's, of two that are one": {`{env: ["*_{TEAM}_*"]}`, "a", "${env:X_A_B_Z}", "also matches the pattern of team a-b, whose name is at least as long: it belongs to that team, or to neither"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVillage(t, tt.references)
			maps.Copy(v.env, map[string]string{"A_TOKEN": "of a", "A_B_TOKEN": "of a-b", "B_TOKEN": "of b", "A_MAIN_TOKEN": "of a-main", "a_token": "small",
				"A": "bare", "A_ x": "odd", "ALL_TOKEN": "of all", "X_B_KEY": "of b", "X_A_B_KEY": "of a-b", "X_A_B_Z": "whose", "AWS_TOKEN": "of aws"})
			for file, text := range map[string]string{"a/key": "file of a", "b/key": "file of b", "all": "file of all", "a/..data/real": "file of a", "a/deep/key": "deep",
				"a/nested": "${env:LEDGER}"} {
				v.write("secrets/"+file, text+"\n")
			}
			v.link("../b/key", "secrets/a/link")
			v.link(v.path("secrets/b/key"), "secrets/a/whole")
			v.link("..data/real", "secrets/a/mounted")
			v.link("../b", "secrets/a/dir")
			if err := syscall.Mkfifo(v.path("secrets/a/pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
			main, err := os.ReadFile(v.path("forebay.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			v.write("forebay.yaml", string(main)+"teams: {a-main: {sources: {s: {preset: github, secrets: [\"${env:LEDGER}\"]}}}}\n") // the main file may
			for _, other := range []string{"a", "b", "a-b"} {
				v.team(other, "x")
			}
			v.team(tt.team, strings.ReplaceAll(tt.reference, "DIR", v.dir))
			got, want := v.secret(tt.team), strings.ReplaceAll(tt.want, "DIR", v.dir)
			if got != want && (!strings.Contains(got, want) || !strings.Contains(got, "teams/"+tt.team+".yaml")) {
				t.Errorf("%s\ngives   %s\nwant    %s", tt.reference, got, want)
			}
			if strings.Contains(got, "canary") {
				t.Errorf("the message shows a secret: %s", got)
			}
		})
	}
}

// A process that does not use a value refuses its reference all the same: whoever looks with one role sees what another would.
func TestReferencesAreRefusedInAnyRole(t *testing.T) {
	t.Parallel()
	v := newVillage(t, usualReferences)
	v.write("teams/a.yaml", "teams: {a: {sources: {s: {preset: github, secrets: [\"${env:LEDGER}\"]}},\n"+
		"  destinations: {d: {type: slack, token: \"${env:LEDGER}\", params: {channel: C0123456789,\n    text: \"${env:LEDGER}\"}}}}}\n")
	for _, role := range []Role{RoleIntake, RoleStream, RoleTopics, RoleMigrate} {
		_, wrong := v.load(role)
		for _, want := range []string{"a.yaml:1: teams.a.sources.s.secrets[0]", "a.yaml:2: teams.a.destinations.d.token", "a.yaml:3: teams.a.destinations.d.params.text"} {
			if !strings.Contains(wrong, want) {
				t.Errorf("%s: no %q in\n%s", role, want, wrong)
			}
		}
	}
}

// TestNetworksOfTeamFiles: what a team's file allows itself to call is inside what the main file lists, wherever it is written and
// however it is spelled.
func TestNetworksOfTeamFiles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ references, networks, want string }{
		"none by default":       {"", `127.0.0.0/8`, "teams/a.yaml:2: teams.a.PATH[0]: a team's file may not allow 127.0.0.0/8: the main file (DIR/forebay.yaml:4) lets it allow no network; `teams_dir: {path: teams, references: {networks: [\"127.0.0.0/8\"]}}` there"},
		"none with others":      {usualReferences, `127.0.0.1/32`, "a team's file may not allow 127.0.0.1/32"},
		"a public one":          {"", `8.8.8.8/32`, "a team's file may not allow 8.8.8.8/32"},
		"nothing":               {"", ``, ""},
		"the listed one":        {`{networks: [10.0.0.0/8]}`, `10.0.0.0/8`, ""},
		"a part of it":          {`{networks: [192.168.0.0/16, 10.0.0.0/8]}`, `10.1.2.0/24, 192.168.1.1/32`, ""},
		"one of two":            {`{networks: [192.168.0.0/16, 10.0.0.0/8]}`, `127.0.0.1/32, 10.1.2.0/24`, "PATH[0]: team a may not allow 127.0.0.1/32, only networks inside 192.168.0.0/16, 10.0.0.0/8: allow one of those, or have teams_dir.references.networks in the main file (DIR/forebay.yaml:4) changed"},
		"the other of two":      {`{networks: [10.0.0.0/8]}`, `10.1.2.0/24, 127.0.0.1/32`, "PATH[1]: team a may not allow 127.0.0.1/32"},
		"more than the listed":  {`{networks: [10.0.0.0/8]}`, `8.0.0.0/6`, "may not allow 8.0.0.0/6"},
		"everything":            {`{networks: [10.0.0.0/8]}`, `0.0.0.0/0`, "may not allow 0.0.0.0/0"},
		"everything of IPv6":    {`{networks: [10.0.0.0/8]}`, `"::/0"`, "may not allow ::/0"},
		"what means loopback":   {`{networks: [10.0.0.0/8]}`, `0.0.0.0/32`, "may not allow 0.0.0.0/32"},
		"loopback of IPv6":      {`{networks: [127.0.0.0/8]}`, `"::1/128"`, "may not allow ::1/128"},
		"mapped":                {`{networks: [10.0.0.0/8]}`, `"::ffff:127.0.0.0/104"`, "may not allow ::ffff:127.0.0.0/104"},
		"mapped, of the listed": {`{networks: [10.0.0.0/8]}`, `"::ffff:10.1.0.0/112"`, ""},
		"NAT64":                 {`{networks: ["fd00::/8"]}`, `"64:ff9b::7f00:1/128"`, "may not allow 64:ff9b::7f00:1/128"},
		"IPv6":                  {`{networks: ["fd00::/8"]}`, `"fd12::/16"`, ""},
		"through a reference":   {`{env: ["{TEAM}_*"], networks: [10.0.0.0/8]}`, `"${env:A_NET}"`, "team a may not allow ${env:A_NET}"},
	} {
		for at, file := range map[string]string{
			"destinations.d.allow_networks":   "teams: {a: {destinations: {d: {type: http, url: https://example.com/,\n  allow_networks: [%s]}}}}\n",
			"destinations.p.allow_networks":   "teams: {a: {destinations: {p: {type: postgres, database: postgres://u:p@example.com/d, statement: SELECT 1,\n  allow_networks: [%s]}}}}\n",
			"sources.s.verify.allow_networks": "teams: {a: {sources: {s: {preset: agent, verify: {scheme: jwt, jwks_url: https://example.com/, issuer: i, audience: a,\n  allow_networks: [%s]}}}}}\n",
			"sources.s.thin.allow_networks":   "teams: {a: {sources: {s: {preset: github, secrets: [x], thin: {url: https://example.com/,\n  allow_networks: [%s]}}}}}\n",
			"sources.s.backfill.allow_networks": "teams: {a: {sources: {s: {preset: generic, secrets: [x], verify: {signature_header: X}, event: {id: /a, type: /a, entity: [/a], version: {from: /v, kind: sequence}, payload: delta}, backfill: {url: https://example.com/,\n" +
				"  allow_networks: [%s]}}}}}\n",
		} {
			if at != "destinations.d.allow_networks" && name != "one of two" && name != "a part of it" {
				continue // the places are judged by one function
			}
			t.Run(name+"/"+at, func(t *testing.T) {
				t.Parallel()
				v := newVillage(t, tt.references)
				v.env["A_NET"] = "127.0.0.0/8"
				v.write("teams/a.yaml", fmt.Sprintf(file, tt.networks))
				_, wrong := v.load()
				want := strings.NewReplacer("DIR", v.dir, "PATH", at).Replace(tt.want)
				if want == "" && wrong != "" || !strings.Contains(wrong, want) || want != "" && !strings.Contains(wrong, "teams/a.yaml:2: teams.a."+at) {
					t.Errorf("allow_networks: [%s]\ngives   %s\nwant    %s", tt.networks, wrong, want)
				}
			})
		}
	}
}

// TestFilesOfTeams: a file has its team and nothing else, wherever it claims to be from.
func TestFilesOfTeams(t *testing.T) {
	t.Parallel()
	const source = "{sources: {s: {preset: github, secrets: [\"${env:AWS_KEY}\"]}}}"
	v := newVillage(t, usualReferences)
	v.env["AWS_KEY"] = "canary"
	v.write("teams/a.yaml", "teams:\n  a: {}\n  aws: "+source+"\n")
	v.write("teams/b.yaml", "teams: {b: {}}\n")
	v.write("teams/b.yml", "teams: {b: {}}\n")
	v.write("teams/*.yaml", "teams: {a: "+source+"}\n")
	v.write("teams/anchor.yaml", "x: &key \"${env:AWS_KEY}\"\nteams: {anchor: {sources: {s: {preset: github, secrets: [*key]}}}}\n")
	v.write("teams/key.yaml", "teams: {key: {sources: {\"${env:AWS_KEY}\": {preset: github, secrets: [x]}}}}\n")
	v.write("teams/merge.yaml", "teams: {merge: {sources: {s: {<<: {preset: github}, secrets: [x]}}}}\n")
	v.write("teams/top.yaml", "exec: {enabled: true}\npostgres: {statements: true}\nkafka: {publish: {top: [events.]}}\nteams_dir: {references: {env: [\"*\"]}}\n"+
		"destinations: {}\nlisten: {}\nteams: {top: {}}\n")
	v.write("teams/topic.yaml", "teams: {topic: {sources: {s: {preset: github, secrets: [x], topic: events.a.s}}}}\n")
	v.link(v.path("forebay.yaml"), "teams/whole.yaml")
	v.link("../outside", "teams/up.yaml")
	v.write("outside", "canary\n")
	v.write("teams/real", "teams: {linked: {}}\n")
	v.link("real", "teams/linked.yaml")
	_, wrong := v.load()
	for _, want := range []string{
		"a.yaml:3: teams.aws: this is the file of team a, by its name: team aws lives in aws.yaml",
		"b.yml:1: teams.b: team b is already in",
		"*.yaml: the name of a team's file is that of its team",
		"anchor.yaml:2: teams.anchor.sources.s.secrets[0]: anchors and aliases are not supported",
		"key.yaml:1: teams.key.sources: name \"${env:AWS_KEY}\" must match",
		"merge.yaml:1: teams.merge.sources.s: merge keys are not supported",
		"top.yaml:1: exec: stands in the main file only", "top.yaml:2: postgres: stands in the main file only", "top.yaml:3: kafka: stands in the main file only",
		"top.yaml:4: teams_dir: stands in the main file only", "top.yaml:5: destinations: stands in the main file only", "top.yaml:6: listen: stands in the main file only",
		"topic.yaml:1: teams.topic.sources.s.topic: \"events.a.s\" is not a topic's name that begins with events.topic.",
		"whole.yaml, in which no link may lead out of", "up.yaml, in which no link may lead out of",
	} {
		if !strings.Contains(wrong, want) {
			t.Errorf("no %q in\n%s", want, wrong)
		}
	}
	for _, not := range []string{"canary", "linked.yaml"} {
		if strings.Contains(wrong, not) {
			t.Errorf("%q in\n%s", not, wrong)
		}
	}
}

// TestListsOfReferences: an entry that could mean more than one team's is refused where it is written.
func TestListsOfReferences(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		`{env: ["{team}_*"]}`:                 "references.env[0]: \"{team}_*\" needs {TEAM}",
		`{env: ["${env:X}"]}`:                 "environment variable X is not set",
		`{env: ["{TEAM} *"]}`:                 "is not the name of a variable",
		`{env: ["A-B"]}`:                      "is not the name of a variable",
		`{files: ["/run/{TEAM}/*"]}`:          "needs {team}",
		`{files: ["secrets/./{team}/*"]}`:     "is not a path without . and ..",
		`{files: ["/run/{team}/../*"]}`:       "is not a path without . and ..",
		`{files: ["/run/secrets/{team}-*"]}`:  "has {team} as a part of a name",
		`{files: ["/run/*/{team}/key"]}`:      "has * before {team}",
		`{files: ["/run/secrets/{team}/**"]}`: "for any part of one name",
		`{files: ["/run/{team}/[ab]"]}`:       "for any part of one name",
		`{files: ["/run/{team}/{x}"]}`:        "for any part of one name",
		`{networks: [10.0.0.1/8]}`:            "10.0.0.1/8 has bits behind its mask; write 10.0.0.0/8",
		`{networks: [localhost]}`:             "references.networks[0]: \"localhost\" is not a network",
		`{other: []}`:                         "unknown key; known are env, files, networks",
	} {
		if _, wrong := newVillage(t, list).load(); !strings.Contains(wrong, want) || !strings.Contains(wrong, "forebay.yaml:4") {
			t.Errorf("%s: no %q in %s", list, want, wrong)
		}
	}
	v := newVillage(t, "")
	if err := os.Mkdir(v.path("teams"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, wrong := v.load()
	if wrong != "" {
		t.Fatal(wrong)
	}
	text, err := c.YAML()
	if want := "teams_dir:\n  path: teams\n  references:\n    env: []\n    files: []\n    networks: []\n"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("config show does not say what team files may read: %v\n%s", err, text)
	}
}
