package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// laterVillage has the teams quick and large, whose file is as it must be for a change of it to be left for later.
func laterVillage(t *testing.T) (v *village, o Options, running *Config) {
	t.Helper()
	v = newVillage(t, `{env: ["T_{TEAM}_*"]}`)
	v.env["T_LARGE_KEY"] = "first"
	v.quick("first")
	v.large("large", "first", 40<<10)
	o = Options{Path: v.path("forebay.yaml"), Roles: ServeRoles(), Run: true, Lookup: func(name string) (string, bool) { s, ok := v.env[name]; return s, ok }}
	running, left, err := Start(o)
	if err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	return v, o, running
}

func (v *village) quick(source string) {
	v.write("teams/quick.yaml", "teams: {quick: {sources: {"+source+": {preset: github, secrets: [x]}}}}\n")
}

// large writes a team's file of so many bytes with one source.
func (v *village) large(team, source string, size int) {
	text := "teams: {" + team + ": {sources: {" + source + ": {preset: github, secrets: [\"${env:T_" + strings.ToUpper(team) + "_KEY}\"]}}}}\n#"
	v.write("teams/"+team+".yaml", text+strings.Repeat("x", size-len(text)))
}

// sourcesNow returns the sources of all teams, as TEAM/SOURCE.
func sourcesNow(c *Config) string {
	var list []string
	for _, team := range keys(c.Teams) {
		for _, source := range keys(c.Teams[team].Sources) {
			list = append(list, team+"/"+source)
		}
	}
	return strings.Join(list, " ")
}

// TestReloadTakesWhatIsLargeLater: what others have changed at the same time is in force before a large file is compiled, and so are the secrets of its
// team; nothing is left for ever.
func TestReloadTakesWhatIsLargeLater(t *testing.T) {
	t.Parallel()
	v, o, running := laterVillage(t)
	reload := func(what, sources string, later bool, kept int) {
		t.Helper()
		read, problems, err := running.Reload(o)
		if err != nil || len(problems) != kept {
			t.Fatalf("%s: %v %v", what, problems, err)
		}
		if got := sourcesNow(read); got != sources || read.Later() != later {
			t.Errorf("%s: the sources are %q, want %q; later is %v", what, got, sources, read.Later())
		}
		running = read
	}
	reload("nothing", "large/first quick/first", false, 0)
	v.large("large", "second", 40<<10)
	v.quick("second")
	v.env["T_LARGE_KEY"] = "second"
	seen := map[string]bool{}
	o.See = func(path string) { seen[path] = true }
	reload("two files", "large/first quick/second", true, 0)
	if !seen[v.path("teams/large.yaml")] || !seen[v.path("teams/quick.yaml")] {
		t.Errorf("the files are not all watched: %v", seen)
	}
	if got := running.Teams["large"].Sources["first"].Secrets[0].Value.Reveal(); got != "second" {
		t.Errorf("the secret of the file that was left is %q", got)
	}
	v.quick("third")
	reload("one more", "large/second quick/third", false, 0)
	reload("nothing", "large/second quick/third", false, 0)
	for _, team := range []string{"a", "b", "c"} {
		v.env["T_"+strings.ToUpper(team)+"_KEY"] = "x"
		v.large(team, "new", 300<<10)
	}
	reload("three new teams", "large/second quick/third", true, 0)
	reload("as much as one file may have", "a/new large/second quick/third", true, 0)
	reload("twice as much", "a/new b/new c/new large/second quick/third", false, 0)
	v.large("large", "third", 40<<10)
	v.write("forebay.yaml", "# another\n"+v.read("forebay.yaml"))
	reload("with the main file", "a/new b/new c/new large/third quick/third", false, 0)
	v.write("teams/Odd.yaml", strings.Repeat("#", 40<<10))
	reload("a file of no team", "a/new b/new c/new large/third quick/third", false, 1)
	reload("still", "a/new b/new c/new large/third quick/third", false, 1)
	v.write("teams/large.yaml", "not: [yaml"+strings.Repeat(" ", 40<<10))
	v.quick("fourth")
	reload("a broken file", "a/new b/new c/new large/third quick/fourth", true, 1)
	reload("a broken file, later", "a/new b/new c/new large/third quick/fourth", false, 2)
	v.quick("fifth")
	reload("still", "a/new b/new c/new large/third quick/fifth", false, 2)
	if err := os.Remove(v.path("teams/large.yaml")); err != nil {
		t.Fatal(err)
	}
	reload("gone", "a/new b/new c/new quick/fifth", false, 1)
	v.large("large", "last", 40<<10)
	v.quick("last")
	o.Check = func(c *Config) Problems {
		if c.Teams["large"] == nil {
			return Problems{{File: o.Path, Message: "team large is missing"}}
		}
		return nil
	}
	reload("what the rest needs", "a/new b/new c/new large/last quick/last", false, 1)
}

// TestReloadLeavesNothingBehindAnError: what is large is not left where the reload before was refused, nor for ever where what was read is not taken, nor
// where it is only called otherwise.
func TestReloadLeavesNothingBehindAnError(t *testing.T) {
	t.Parallel()
	v, o, running := laterVillage(t)
	main := v.read("forebay.yaml")
	v.write("forebay.yaml", main+"teams: {z: {nonsense: 1}}\n")
	v.large("large", "second", 40<<10)
	if _, _, err := running.Reload(o); err == nil {
		t.Fatal("nonsense is taken")
	}
	v.write("forebay.yaml", main)
	running, _, err := running.Reload(o)
	if err != nil || sourcesNow(running) != "large/second quick/first" || running.Later() {
		t.Errorf("the main file is as before: %v, %s, later is %v", err, sourcesNow(running), running.Later())
	}
	v.large("large", "third", 40<<10)
	for _, want := range []string{"large/second quick/first", "large/third quick/first"} {
		read, _, err := running.Reload(o)
		if err != nil || sourcesNow(read) != want {
			t.Errorf("%v, %s, want %s", err, sourcesNow(read), want)
		}
	}
	running, _, err = running.Reload(o)
	if err != nil || os.Rename(v.path("teams/large.yaml"), v.path("teams/large.yml")) != nil {
		t.Fatal(err)
	}
	if read, _, err := running.Reload(o); err != nil || sourcesNow(read) != "large/third quick/first" {
		t.Errorf("under another name: %v, %s", err, sourcesNow(read))
	}
}

// TestReloadHasNoNotesOnTypes: nobody reads them, and each is looked for among all types of the catalogue.
func TestReloadHasNoNotesOnTypes(t *testing.T) {
	t.Parallel()
	v, o, _ := laterVillage(t)
	v.write("teams/noted.yaml", "teams: {noted: {sources: {s: {preset: github, secrets: [x]}}, destinations: {d: {type: log}}, "+
		"subscriptions: {s: {sources: [s], types: [x.y], actions: [{name: a, to: d}]}}}}\n")
	onTypes := func(c *Config) (n int) {
		for _, note := range c.Notes() {
			if strings.Contains(note.Path, ".types") {
				n++
			}
		}
		return n
	}
	started, _, err := Start(o)
	if err != nil || onTypes(started) != 1 {
		t.Fatal(err, started.Notes())
	}
	if read, _, err := started.Reload(o); err != nil || onTypes(read) != 0 || read.Teams["noted"] == nil {
		t.Error(err, read.Notes())
	}
}

func (v *village) read(name string) string {
	v.t.Helper()
	text, err := os.ReadFile(v.path(name))
	if err != nil {
		v.t.Fatal(err)
	}
	return string(text)
}

// TestUnchangedExpressionsAreNotCompiledAgain: another team's change has a reload compile nothing of a costly file, which allocates many times what is
// looked up. Not parallel, for it counts allocations.
func TestUnchangedExpressionsAreNotCompiledAgain(t *testing.T) {
	v := newVillage(t, "")
	v.env["LEDGER"] = "postgres://127.0.0.1/x"
	o := Options{Path: v.path("forebay.yaml"), Run: true, Lookup: func(name string) (string, bool) { s, ok := v.env[name]; return s, ok }}
	n := 0
	costly := func() {
		n++
		var b strings.Builder
		b.WriteString("teams:\n  costly:\n    sources: {s: {preset: github, secrets: [x]}}\n    destinations: {d: {type: http, url: \"https://example.com\"}}\n    subscriptions:\n")
		for i := range 10 {
			fmt.Fprintf(&b, "      s%d: {sources: [s], match: \"body.a == %d%s\", actions: [{name: run, to: d}]}\n", i, n*100+i, strings.Repeat(" && body.issue.title.startsWith('a')", 40))
		}
		v.write("teams/costly.yaml", b.String())
	}
	costly()
	v.quick("first")
	running, _, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	reloading := func(change func()) float64 {
		return testing.AllocsPerRun(2, func() {
			change()
			read, kept, err := running.Reload(o)
			if err != nil || len(kept) > 0 || read.Later() {
				t.Error(kept, err)
				return
			}
			running = read
		})
	}
	sources := 0
	changed, unchanged := reloading(costly), reloading(func() { sources++; v.quick(fmt.Sprintf("s%d", sources)) })
	if running.Teams["quick"].Sources["s3"] == nil || changed < 4*unchanged {
		t.Errorf("a reload makes %.0f allocations with the costly file unchanged, and %.0f with another one", unchanged, changed)
	}
	text := v.read("teams/costly.yaml")
	back := reloading(func() {
		for range 2 {
			v.write("teams/costly.yaml", "teams: {costly: {}}\n")
			if running, _, err = running.Reload(o); err != nil {
				t.Fatal(err)
			}
		}
		v.write("teams/costly.yaml", text)
	})
	if back < 2*unchanged+changed/2 {
		t.Errorf("what was taken out is kept: its return is %.0f allocations, and without it there are %.0f", back, unchanged)
	}
}
