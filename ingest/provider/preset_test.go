package provider

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// TestPresetIsWhole holds each preset to what its readers take for granted, so that a slip in a new file is said here and
// not by a source in production.
func TestPresetIsWhole(t *testing.T) {
	t.Parallel()
	for name, p := range catalogue {
		for _, problem := range p.problems() {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// TestPresetProblems: the check finds what it is for.
func TestPresetProblems(t *testing.T) {
	t.Parallel()
	for want, slip := range map[string]func(*preset){
		"prefix":     func(p *preset) { p.prefix = "com.github" },
		"deadline":   func(p *preset) { p.deadline = 0 },
		"retries":    func(p *preset) { p.retries = "" },
		"pairs":      func(p *preset) { p.names = []string{":"} },
		"scheme":     func(p *preset) { p.verify.Scheme = "git" },
		"no selects": func(p *preset) { p.selects = nil },
		"lower case": func(p *preset) { p.headers = []string{"X-Hook"} },
		"snapshots":  func(p *preset) { p.rules = map[string]mapping{"push": {snapshots: &condition{from: "/action"}}} },
		"no clock": func(p *preset) {
			p.rules = map[string]mapping{"push": {snapshots: &condition{from: "/x", is: []string{"y"}}}}
		},
		"kind":          func(p *preset) { p.fallback.clocks = []clock{{from: "/at"}} },
		"resolution":    func(p *preset) { p.fallback.clocks = []clock{{from: "/at", kind: schemas.Timestamp}} },
		"volatile":      func(p *preset) { p.fallback.volatile = []string{"attempt"} },
		"payloadRule":   func(p *preset) { p.payloadRule = "interaction" },
		"of issues":     func(p *preset) { p.rules["label"] = mapping{clocks: seconds("/label/updated_at", "issue")} },
		"repository/id": func(p *preset) { p.fallback.entity = []string{"repository/id"} },
	} {
		p := github()
		slip(&p)
		if got := p.problems(); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: found %q", want, got)
		}
	}
}

// domain is what a preset's prefix is, from the back.
var domain = regexp.MustCompile(`^[a-z]+(\.[a-z0-9-]+)+\.$`)

func (p preset) problems() (found []string) {
	check := func(holds bool, problem string) {
		if !holds {
			found = append(found, problem)
		}
	}
	check(validName(p.name) && p.title != "", "name or title")
	check(p.prefix == "" || domain.MatchString(p.prefix), "prefix is no domain such as com.NAME., from the back")
	check(len(p.names)%2 == 0, "names are no pairs")
	check(p.maxBody >= 1<<20 && p.deadline >= time.Second, "maxBody below 1 MiB, or deadline below 1s")
	check(p.retries != "" && (p.retryHorizon > 0 || p.name == "generic"), "retries or retryHorizon is missing")
	check(p.verify.Scheme == "" || slices.Contains(verify.Schemes(), p.verify.Scheme), "scheme does not exist")
	check(len(p.rules) == 0 || len(p.selects) > 0, "rules and no selects: nothing chooses them")
	for _, rule := range []string{p.payloadRule, p.formRule} {
		_, ok := p.rules[rule]
		check(rule == "" || ok, "payloadRule or formRule names no rule")
	}
	for _, header := range p.headers {
		check(header == strings.ToLower(header), "header "+header+" is not in lower case")
	}
	for name, m := range p.rules {
		found = append(found, m.problems(name, p.fallback)...)
	}
	found = append(found, p.sharedClocks()...)
	if p.name != "generic" { // whose source says all of it
		found = append(found, p.fallback.problems("fallback", p.fallback)...)
	}
	return found
}

// sharedClocks finds mappings that share a clock with one that has snapshots: their bodies need not carry the object whose snapshot they
// would make stale. Those with the very same condition are one mapping under several names.
func (p preset) sharedClocks() (found []string) {
	all := maps.Clone(p.rules)
	if all == nil {
		all = map[string]mapping{}
	}
	all["fallback"] = p.fallback
	for name, m := range all {
		for other, o := range all {
			for _, c := range m.clocks {
				if name != other && m.snapshots != nil && m.snapshots != o.snapshots && slices.ContainsFunc(o.clocks, func(k clock) bool { return k.name == c.name }) {
					found = append(found, other+" has the clock "+c.name+" of "+name+", which has snapshots")
				}
			}
		}
	}
	return found
}

func (m mapping) problems(name string, fallback mapping) (found []string) {
	switch s := m.snapshots; {
	case s == nil:
	case len(s.is) == 0 && s.suffix == "" && !s.there:
		found = append(found, name+": snapshots never holds")
	case len(m.clocks) == 0:
		found = append(found, name+": snapshots, and no clock by which one is older than another")
	}
	for _, c := range m.clocks {
		switch {
		case !c.kind.Valid() || c.kind == schemas.None:
			found = append(found, name+": a clock's kind is missing")
		case (c.kind == schemas.Timestamp) != (c.resolution > 0):
			found = append(found, name+": a resolution is for timestamps, which need one")
		}
	}
	for _, pointer := range m.volatile {
		if !strings.HasPrefix(pointer, "/") {
			found = append(found, name+": volatile "+pointer+" is no pointer")
		}
	}
	if _, err := (&refs{}).rule(m, fallback, &EventConfig{}); err != nil {
		found = append(found, name+": "+err.Error())
	}
	return found
}

// TestEveryPresetIsRegistered: a file that forgets to is compiled and never used.
func TestEveryPresetIsRegistered(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	written := regexp.MustCompile(`(?m)^func (\w+)\(\) preset \{`)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range written.FindAllSubmatch(text, -1) {
			found++
			if call := "var _ = register(" + string(name[1]) + "())"; !strings.Contains(string(text), call) {
				t.Errorf("%s has no line %s", file, call)
			}
		}
	}
	if found != len(catalogue) {
		t.Errorf("%d presets were found of %d", found, len(catalogue))
	}
}

// TestPresetSaysItsSources: a fact about a provider's wire that nobody can look up cannot be mended when it changes.
func TestPresetSaysItsSources(t *testing.T) {
	t.Parallel()
	for name := range catalogue {
		file := strings.ReplaceAll(name, "-", "_") + ".go"
		text, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("preset %s is not in a file of its name: %v", name, err)
		} else if name != "generic" && !strings.Contains(string(text), "\n// Sources: ") {
			t.Errorf("%s says no sources", file)
		}
	}
}
