package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// canary is looked for wherever something is shown.
const canary = "c4n4ry-5d41402abc4b"

// everyKey returns a file that has every key there is, by the declaration that decodes it, a reference to a canary in each text.
// Destinations are of each type, so that theirs are among them.
func everyKey(t *testing.T) (text string, references []string) {
	t.Helper()
	b := &everything{}
	n := b.node(reflect.TypeFor[Config](), "")
	out, err := yaml.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), b.references
}

type everything struct{ references []string }

func (b *everything) text() *yaml.Node {
	r := fmt.Sprintf("${env:CANARY_%d}", len(b.references))
	b.references = append(b.references, r)
	return text(r)
}

func mapping(pairs ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: pairs}
}

func (b *everything) node(t reflect.Type, path string) *yaml.Node {
	switch {
	case t.Kind() == reflect.Pointer:
		return b.node(t.Elem(), path)
	case isScalar(t):
		return b.text()
	case t == paramsType:
		return mapping(text("text"), b.text(), text("list"), &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{b.text()}})
	case t == headersType, t == envType:
		return mapping(text("NAME"), b.text())
	case t.Kind() == reflect.Slice:
		return &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{b.node(t.Elem(), path)}}
	case t.Kind() == reflect.Map && t.Elem() == reflect.PointerTo(destinationType):
		n := mapping()
		for _, s := range sinkTypes {
			n.Content = append(n.Content, text(s.Name), b.keys(reflect.ValueOf(&Destination{Type: s.Name, Keys: s.New()}).Elem(), path))
		}
		return n
	case t.Kind() == reflect.Map && t.Elem() == reflect.TypeFor[*Receiver]():
		n := mapping()
		for _, name := range receiverTypes {
			n.Content = append(n.Content, text(name), b.keys(reflect.ValueOf(&Receiver{Type: name, Keys: newKeys(name)}).Elem(), path))
		}
		return n
	case t.Kind() == reflect.Map:
		return mapping(text("n"), b.node(t.Elem(), path))
	}
	return b.keys(reflect.New(t).Elem(), path)
}

func (b *everything) keys(v reflect.Value, path string) *yaml.Node {
	n := mapping()
	for _, m := range members(v) {
		var value *yaml.Node
		switch at := join(path, m.name); {
		case m.name == "type" && v.FieldByName("Keys").IsValid():
			value = text(v.FieldByName("Type").String())
		case at == "teams_dir":
			continue // there is none
		default:
			value = b.node(m.value.Type(), at)
		}
		n.Content = append(n.Content, text(m.name), value)
	}
	return n
}

// TestNothingThatIsReferredToIsShown sends a canary through every text of the file, whatever comes of it: config show, in all of
// its forms, has the references, and no problem quotes what they lead to.
func TestNothingThatIsReferredToIsShown(t *testing.T) {
	t.Parallel()
	file, references := everyKey(t)
	if len(references) < 300 {
		t.Fatalf("the file has %d texts, which cannot be all:\n%s", len(references), file)
	}
	for name, value := range map[string]string{
		"a word": canary, "a long text": canary + strings.Repeat("x", 200), "a URL with a query": "http://10.0.0.1/?q=" + canary,
		"a template": "{{body." + canary + "}}", "characters": "\"" + canary + "\"\n\\",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{}
			for i := range references {
				env[fmt.Sprintf("CANARY_%d", i)] = value
			}
			c, problems := load(file, env, nil, Options{})
			for _, p := range problems {
				if strings.Contains(p.Message, canary) {
					t.Errorf("a problem quotes what a reference leads to: %v", p)
				}
			}
			look(t, c, references)
		})
	}
}

// look looks at what config show prints.
func look(t *testing.T, c *Config, references []string) {
	t.Helper()
	shown, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	value, err := c.Value()
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for form, text := range map[string]string{"YAML": string(shown), "JSON": string(inJSON)} {
		if i := strings.Index(text, canary); i >= 0 {
			t.Errorf("config show prints what a reference leads to, as %s: %s", form, text[max(0, i-200):min(len(text), i+100)])
		}
		for _, r := range references {
			if !strings.Contains(text, r) {
				t.Errorf("config show does not have %s, as %s", r, form)
			}
		}
	}
}

// TestProblemsOfOneValueDoNotQuoteIt: in a file that is fine, one text after the other leads to what is not: to one of four values in turn, with
// FOREBAY_SOAK to each.
func TestProblemsOfOneValueDoNotQuoteIt(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"design": design, "fetching": fetching, "example": string(Example())} {
		var root yaml.Node
		if err := yaml.Unmarshal([]byte(file), &root); err != nil {
			t.Fatal(err)
		}
		seen := 0
		for n, leaf := range leaves(root.Content[0]) {
			was := leaf.Value
			values := []string{canary, was + "/" + canary, "{" + canary + "}" + was, canary + strings.Repeat("é", 100)}
			if os.Getenv("FOREBAY_SOAK") == "" {
				values = values[n%len(values):][:1]
			}
			for _, value := range values {
				env := maps.Clone(designEnv)
				maps.Copy(env, fetchEnv)
				env["CANARY"] = value
				leaf.SetString("${env:CANARY}")
				text, err := yaml.Marshal(&root)
				if err != nil {
					t.Fatal(err)
				}
				c, problems := load(string(text), env, designFiles, Options{Lookup: os.LookupEnv})
				for _, p := range slices.Concat(problems, Problems(c.Notes())) {
					if seen++; strings.Contains(p.Message, canary[:12]) {
						t.Errorf("%s, %s instead of %s: %v", name, value, was, p)
					}
				}
				if shown, err := c.YAML(); err != nil || strings.Contains(string(shown), canary[:12]) {
					t.Errorf("%s, %s instead of %s: config show prints it (%v)", name, value, was, err)
				}
			}
			leaf.Value = was
		}
		if seen == 0 {
			t.Errorf("%s: %d problems were looked at: this test sees none", name, seen)
		}
	}
}

// leaves returns the values of a document that are texts.
func leaves(n *yaml.Node) (list []*yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		return []*yaml.Node{n}
	}
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			list = append(list, leaves(c)...)
		}
	}
	return list
}

// TestHide: a log hides what is secret, and shows names and addresses.
func TestHide(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("127.0.0.1:8080", `"${env:INTAKE}"`, "https://agents.example.com/run", `"https://${env:HOST}/${env:TOKEN}"`,
		`secrets: ["${env:ORDERS_SECRET}"]`, "secrets: [written-out]").Replace(design)
	env := maps.Clone(designEnv)
	env["FOREBAY_POSTGRES_URL"] = "postgres://forebay:pg-passw0rd@127.0.0.1:5432/forebay"
	env["INTAKE"], env["HOST"], env["TOKEN"] = "127.0.0.1:8089", "agents.example.net", canary
	c, problems := load(text, env, designFiles, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	hidden := c.Hide()
	for value, want := range map[string]string{
		canary: "${env:TOKEN}", "agents.example.net": "${env:HOST}", "pg-passw0rd": "${env:FOREBAY_POSTGRES_URL}", env["FOREBAY_POSTGRES_URL"]: "${env:FOREBAY_POSTGRES_URL}", "forebay": "", "gh-secret": "${env:GITHUB_SECRET}", "written-out": "<redacted>",
		"127.0.0.1:8089": "",
	} {
		if got := hidden.Everywhere[value]; got != want {
			t.Errorf("%s is hidden as %q, want %q", value, got, want)
		}
	}
	if len(hidden.OfTeams) > 0 {
		t.Errorf("of the main file, %v is of teams", hidden.OfTeams)
	}
	for range 20 { // always in this order
		var ofCoder []string
		for _, s := range c.HiddenOf(own(c, "coder")) {
			ofCoder = append(ofCoder, s.Reveal())
		}
		if want := []string{designEnv["CODER_SECRET"], "agents.example.net", canary}; !slices.Equal(ofCoder, want) {
			t.Fatalf("hidden of the destination: %q, want %q", ofCoder, want)
		}
	}
}

// TestWhatATeamsFileHides: whoever writes one may have words for secrets, by text or reference, which are hidden of that team alone. A
// file that claims another team's secrets takes none of what is known of them.
func TestWhatATeamsFileHides(t *testing.T) {
	t.Parallel()
	v := newVillage(t, usualReferences)
	main, err := os.ReadFile(v.path("forebay.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	v.write("forebay.yaml", string(main)+"destinations: {pagers: {type: http, url: \"https://example.com/\", headers: {X-Key: \"${env:PAGERS_KEY}\"}, teams: [\"*\"], params: {body: {a: b}}}}\n"+
		"teams: {victim: {sources: {s: {preset: github, secrets: [\"${env:VICTIM_KEY}\", written-out]}}}}\n")
	v.env["PAGERS_KEY"], v.env["VICTIM_KEY"], v.env["A_WORD"], v.env["A_KEY"] = "pagers-key", "victim-key", "channel", "0123456789abcdef"
	v.write("teams/a.yaml", "teams: {a: {sources: {s: {preset: github, secrets: [payload-error, \"${env:A_WORD}\"]}},\n"+
		"  subscriptions: {u: {sources: [s], actions: [{name: x, to: pagers, params: {body: {word: \"${env:A_WORD}\", key: \"${env:A_KEY}\"}}}]}}}}\n")
	c, wrong := v.load()
	if wrong != "" {
		t.Fatal(wrong)
	}
	want := Hidden{Everywhere: map[string]string{"written-out": "<redacted>", "pagers-key": "${env:PAGERS_KEY}", "victim-key": "${env:VICTIM_KEY}", v.env["LEDGER"]: "${env:LEDGER}"},
		OfTeams: map[string]map[string]string{"a": {"payload-error": "<redacted>", "channel": "${env:A_WORD}", "0123456789abcdef": "${env:A_KEY}"}}}
	if diff := cmp.Diff(want, c.Hide()); diff != "" {
		t.Errorf("hidden (-want +got):\n%s", diff)
	}
	var ofPagers []string
	for _, s := range c.HiddenOf(NamedDestination{Destination: c.Destinations["pagers"], Name: "pagers"}) {
		ofPagers = append(ofPagers, s.Reveal())
	}
	if want := []string{"pagers-key", "0123456789abcdef"}; !slices.Equal(ofPagers, want) {
		t.Errorf("hidden of the shared destination: %q, want %q", ofPagers, want)
	}

	v.write("teams/a.yaml", "teams: {victim: {sources: {s: {preset: github, secrets: [\"${env:A_WORD}\"]}}}}\n")
	v.write("teams/victim.yaml", "teams: {victim: {sources: {s: {preset: github, secrets: [\"${env:VICTIM_OTHER}\", \"${env:VICTIM_OTHER}\"]}}}}\n")
	v.env["VICTIM_OTHER"] = "victim-other"
	var seen Hidden
	_, err = Load(Options{Path: v.path("forebay.yaml"), Lookup: func(name string) (string, bool) { s, ok := v.env[name]; return s, ok }, Hide: func(h Hidden) { seen = h }})
	if err == nil {
		t.Fatal("two files claim one team, and nothing is wrong")
	}
	if want := map[string]map[string]string{"a": {"channel": "${env:A_WORD}"}, "victim": {"victim-other": "${env:VICTIM_OTHER}"}}; !cmp.Equal(seen.OfTeams, want) || seen.Everywhere["victim-key"] == "" {
		t.Errorf("hidden of files that claim a team: %v, and everywhere %v; want %v", seen.OfTeams, seen.Everywhere, want)
	}
}

// TestProblemsOfOthersAreNotHidden: what a team calls secret is taken out of the problems with its own file.
func TestProblemsOfOthersAreNotHidden(t *testing.T) {
	t.Parallel()
	v := newVillage(t, `{env: ["{TEAM}_*"]}`)
	v.env["A_WORD"], v.env["A_NAME"] = "did you mean github?", "a-name-of-a"
	v.write("teams/a.yaml", "teams: {a: {sources: {s: {preset: github, secrets: [\"${env:A_WORD}\", \"did you mean\"], share: [\"${env:A_NAME}!\"]}}}}\n")
	v.write("teams/b.yaml", "teams: {b: {sources: {s: {preset: gihtub, secrets: [x]}}}}\n")
	_, wrong := v.load()
	for _, want := range []string{"did you mean github?", "name \"${env:A_NAME}!\" must match"} {
		if !strings.Contains(wrong, want) {
			t.Errorf("no %q in %s", want, wrong)
		}
	}
}
