package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A team whose file has problems keeps what the running configuration has of it, while others have their changes; a file that was never read
// without problems stays out. What is wrong with the main file, or with what a team keeps, refuses all of it.
func TestReloadKeepsATeamWhoseFileIsBroken(t *testing.T) {
	t.Parallel()
	v := newVillage(t, "")
	dir, write := v.dir, v.write
	const main = "version: 1\nkafka: {brokers: [\"127.0.0.1:9092\"]}\nteams_dir: {path: teams, references: {env: [\"{TEAM}_*\"]}}\n"
	team := func(name, source, secret string) {
		t.Helper()
		write("teams/"+name+".yaml", "teams: {"+name+": {sources: {"+source+": {preset: github, secrets: ["+secret+"]}}}}\n")
	}
	variables := map[string]string{"ACME_SECRET": "a secret"}
	o := Options{Path: filepath.Join(dir, "forebay.yaml"), Roles: []Role{RoleIntake}, Run: true, Lookup: func(name string) (string, bool) {
		v, ok := variables[name]
		return v, ok
	}}
	write("forebay.yaml", main)
	team("acme", "first", `"${env:ACME_SECRET}"`)
	team("other", "first", "x")
	running, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	reload := func(what, sources string, broken ...string) {
		t.Helper()
		read, kept, err := running.Reload(o)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var got, files []string
		for _, team := range keys(read.Teams) {
			for _, source := range keys(read.Teams[team].Sources) {
				got = append(got, team+"/"+source)
			}
		}
		for _, p := range kept {
			files = append(files, filepath.Base(p.File))
		}
		if d := cmp.Diff(sources, strings.Join(got, " ")); d != "" {
			t.Errorf("%s: %s", what, d)
		}
		if d := cmp.Diff(broken, files); d != "" {
			t.Errorf("%s: %s", what, d)
		}
		running = read
	}
	refused := func(what, says string) {
		t.Helper()
		if read, kept, err := running.Reload(o); err == nil || read != nil || kept != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v %v %v, want %q", what, read, kept, err, says)
		}
	}
	reload("nothing", "acme/first other/first")
	write("teams/acme.yaml", "teams: {acme: {sources: nonsense}}\n")
	team("other", "second", "x")
	reload("one is broken", "acme/first other/second", "acme.yaml")
	write("teams/acme.yaml", "not: [yaml")
	write("teams/new.yaml", "teams: {acme: {}}\n")
	team("other", "third", "x")
	reload("still, and a new one", "acme/first other/third", "acme.yaml", "new.yaml")
	if running.LeftOut("acme") || !running.LeftOut("new") || running.LeftOut("none") {
		t.Error("of the three only new is left out")
	}
	secret := func(what, want string) {
		t.Helper()
		if got := running.Teams["acme"].Sources["first"].Secrets[0].Value.Reveal(); got != want {
			t.Errorf("%s: acme's secret is %q, want %q", what, got, want)
		}
	}
	delete(variables, "ACME_SECRET")
	reload("a variable of what it keeps is gone", "acme/first other/third", "acme.yaml", "new.yaml")
	secret("a variable of what it keeps is gone", "a secret")
	variables["ACME_SECRET"] = "another"
	reload("and is back, with another value", "acme/first other/third", "acme.yaml", "new.yaml")
	secret("and is back, with another value", "another")
	write("forebay.yaml", strings.Replace(main, "{TEAM}_*", "X_{TEAM}_*", 1))
	refused("the main file allows less than it needs", "acme.yaml:1: not YAML")
	write("forebay.yaml", main+"nonsense: 1\n")
	refused("the main file", "nonsense")
	write("forebay.yaml", main)
	team("acme", "second", "x")
	reload("mended", "acme/second other/third", "new.yaml")
	if err := os.Remove(filepath.Join(dir, "teams/acme.yaml")); err != nil {
		t.Fatal(err)
	}
	reload("gone", "other/third", "new.yaml")
	write("teams/acme.yaml", "not: [yaml")
	reload("come back broken", "other/third", "acme.yaml", "new.yaml")
	if _, err := Load(o); err == nil {
		t.Error("a start takes a broken file")
	}
}

// A team whose file cannot be read is not there while its file is looked at: that the main file names it is then no problem of the main file.
func TestReloadKeepsABrokenTeamThatTheMainFileNames(t *testing.T) {
	t.Parallel()
	v := newVillage(t, "")
	dir, write := v.dir, v.write
	const grants = "operator: {auth: tokens, public_url: https://ops.example.com, behind_proxy: [10.0.0.0/8], oidc: {issuer: https://idp.example.com, " +
		"client_id: forebay, client_secret: s3cr3t, grants: [{claim: groups, value: dev, role: responder, teams: [acme]}]}}\n"
	const main = "version: 1\nkafka: {brokers: [\"127.0.0.1:9092\"]}\nteams_dir: teams\ndestinations: {pagers: {type: log, teams: [acme]}}\n" + grants
	write("forebay.yaml", main)
	write("teams/acme.yaml", "teams: {acme: {sources: {first: {preset: github, secrets: [x]}}}}\n")
	write("teams/other.yaml", "teams: {other: {sources: {first: {preset: github, secrets: [x]}}}}\n")
	o := Options{Path: filepath.Join(dir, "forebay.yaml"), Roles: []Role{RoleIntake}, Run: true}
	running, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	write("teams/acme.yaml", "not: [yaml")
	write("teams/other.yaml", "teams: {other: {sources: {second: {preset: github, secrets: [x]}}}}\n")
	read, kept, err := running.Reload(o)
	if err != nil {
		t.Fatalf("acme's slip keeps the other team's change out: %v", err)
	}
	if read.Teams["acme"].Sources["first"] == nil || read.Teams["other"].Sources["second"] == nil {
		t.Error("acme has not what it had, or the other team not what it has now")
	}
	if len(kept) != 1 || filepath.Base(kept[0].File) != "acme.yaml" {
		t.Errorf("the problems of files that were left are %q, want acme's alone", kept)
	}
	write("forebay.yaml", main+"nonsense: 1\n")
	if read, kept, err := running.Reload(o); read != nil || kept != nil || err == nil || !strings.Contains(err.Error(), "nonsense") || !strings.Contains(err.Error(), "acme.yaml:1: not YAML") {
		t.Errorf("a main file with a problem of its own: %v %v %v", read, kept, err)
	}
}

// A file that a team's file refers to is the team's: with one that is cut short the team keeps what it had, and the others get their changes. A
// process that starts leaves that team out, and starts without it as long as anything else can run.
func TestATeamsSchemaIsCutShort(t *testing.T) {
	t.Parallel()
	v := newVillage(t, `{files: ["DIR/schemas/{team}/*"]}`)
	const schema = `{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/orders", "type": "object"}`
	v.write("schemas/acme/orders.json", schema)
	v.write("teams/acme.yaml", "teams: {acme: {sources: {orders: {preset: github, secrets: [x], json_schema: {check: quarantine, own: \"${file:../schemas/acme/orders.json}\"}}}}}\n")
	team := func(source string) {
		v.write("teams/other.yaml", "teams: {other: {sources: {"+source+": {preset: github, secrets: [x]}}}}\n")
	}
	team("first")
	checked := 0
	o := Options{Path: v.path("forebay.yaml"), Roles: []Role{RoleIntake}, Run: true, Check: func(c *Config) (problems Problems) {
		checked++
		if other := c.Teams["other"]; other != nil && other.Sources["unbuilt"] != nil {
			problems = append(problems, c.Problem("teams.other.sources.unbuilt", "cannot be built"))
		}
		return problems
	}}
	running, left, err := Start(o)
	if err != nil || left != nil {
		t.Fatal(left, err)
	}
	v.write("schemas/acme/orders.json", schema[:40])
	team("second")
	read, kept, err := running.Reload(o)
	if err != nil || len(kept) != 1 || !strings.HasSuffix(kept[0].File, "acme.yaml") || kept[0].Line != 1 {
		t.Fatal(kept, err)
	}
	if got := read.Teams["acme"].Sources["orders"].JSONSchema.Own; got != schema || read.Teams["other"].Sources["second"] == nil {
		t.Errorf("acme's schema is %s, and the other team has %v", got, keys(read.Teams["other"].Sources))
	}
	if again, kept, err := read.Reload(o); err != nil || len(kept) != 1 || again.Teams["acme"].Sources["orders"].JSONSchema.Own != schema {
		t.Error("the second time:", kept, err)
	}
	started, left, err := Start(o)
	if err != nil || len(left) != 1 || started.Teams["acme"] != nil || started.Teams["other"].Sources["second"] == nil {
		t.Fatal(left, err)
	}
	mended, kept, err := started.Reload(o)
	if err != nil || len(kept) != 1 || mended.Teams["acme"] != nil {
		t.Error("a reload of what started without it:", kept, err)
	}
	team("unbuilt")
	if read, kept, err := running.Reload(o); err != nil || len(kept) != 2 || read.Teams["other"].Sources["first"] == nil {
		t.Error("what cannot be built is its team's alone:", kept, err)
	}
	if c, left, err := Start(o); c != nil || left != nil || err == nil || !strings.Contains(err.Error(), "acme.yaml:1") || !strings.Contains(err.Error(), "cannot be built") {
		t.Error("nothing is left to run:", left, err)
	}
	v.write("schemas/acme/orders.json", schema)
	if read, kept, err := running.Reload(o); err != nil || len(kept) != 1 || read.Teams["acme"] == nil || checked == 0 {
		t.Error("mended:", kept, err)
	}
}

// What the main file takes from a team is taken at once: a shared destination stops the subscriptions that need it, a lower quota stops nothing; and
// others get their changes.
func TestReloadTakesASharedDestinationAway(t *testing.T) {
	t.Parallel()
	v := newVillage(t, "")
	const main = "version: 1\nkafka: {brokers: [\"127.0.0.1:9092\"]}\npostgres: {url: \"postgres://u@127.0.0.1/x\"}\nteams_dir: teams\n"
	v.write("forebay.yaml", main+"destinations: {pagers: {type: log, teams: [acme, other]}}\n")
	v.write("teams/acme.yaml", "teams: {acme: {sources: {first: {preset: github, secrets: [x]}, second: {preset: github, secrets: [x]}}, destinations: {own: {type: log}}, "+
		"subscriptions: {page: {sources: [first], actions: [{name: a, to: pagers}]}, keep: {sources: [first], actions: [{name: a, to: own}]}}}}\n")
	other := func(source string) {
		v.write("teams/other.yaml", "teams: {other: {sources: {"+source+": {preset: github, secrets: [x]}}}}\n")
	}
	other("first")
	o := Options{Path: v.path("forebay.yaml"), Roles: ServeRoles(), Run: true}
	running, left, err := Start(o)
	if err != nil || left != nil {
		t.Fatal(left, err)
	}
	v.write("forebay.yaml", main+"destinations: {pagers: {type: log, teams: [other]}}\nquotas: {default: {sources: 1}}\n")
	other("third")
	read, kept, err := running.Reload(o)
	if err != nil || len(kept) == 0 {
		t.Fatal(kept, err)
	}
	if why := read.Barred("acme", "page"); !strings.Contains(why, "shared destination pagers is not for team acme") || read.Barred("acme", "keep") != "" {
		t.Errorf("barred: %q, %q", why, read.Barred("acme", "keep"))
	}
	if len(read.Teams["acme"].Sources) != 2 || read.Teams["other"].Sources["third"] == nil {
		t.Errorf("acme has %v, the other team %v", keys(read.Teams["acme"].Sources), keys(read.Teams["other"].Sources))
	}
	taken, _ := running.Take(read, Taking{Roles: ServeRoles()})
	if taken.Barred("acme", "page") == "" {
		t.Error("a subscription without its destination goes on")
	}
}
