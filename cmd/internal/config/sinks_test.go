package config

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/sinks/spec"
)

// TestSinkTypes holds every type to what the reader of files takes for granted of its declaration.
func TestSinkTypes(t *testing.T) {
	t.Parallel()
	common := map[string]bool{}
	for _, m := range members(reflect.New(destinationType).Elem()) {
		common[m.name] = true
	}
	for i, typ := range sinkTypes {
		if !validName(typ.Name) || slices.ContainsFunc(sinkTypes[:i], func(other spec.Type) bool { return other.Name == typ.Name }) {
			t.Errorf("the name of type %q is none, or there twice", typ.Name)
		}
		if len(typ.Rows) == 0 {
			t.Errorf("%s has no row for REFERENCE.md", typ.Name)
		}
		one, other := typ.New(), typ.New()
		fields, others := one.Describe().Fields, other.Describe().Fields
		seen := map[string]bool{}
		for i, f := range fields {
			at := typ.Name + "." + f.Name
			if common[f.Name] || seen[f.Name] {
				t.Errorf("%s is declared twice, or a key of all destinations", at)
			}
			seen[f.Name] = true
			if !strings.HasSuffix(f.Doc, ".") {
				t.Errorf("%s: doc %q is not a sentence", at, f.Doc)
			}
			if f.To == others[i].To {
				t.Errorf("%s: two destinations share its value", at)
			}
			if problem := undecodable(f.To); problem != nil {
				t.Errorf("%s: %v", at, problem)
			}
			if f.Default != "" {
				if err := setScalar(valueOf(f), f.Default, fieldOf(f)); err != nil {
					t.Errorf("%s: default %s: %v", at, f.Default, err)
				}
			}
			if f.Most > 0 && !isDuration(valueOf(f).Type()) {
				t.Errorf("%s: bounds are for durations", at)
			}
		}
	}
}

// undecodable is the decoder's panic over a type of value that it does not know.
func undecodable(to any) (problem any) {
	defer func() { problem = recover() }()
	d := &decoder{env: osEnvironment(), uses: func(string) bool { return true }, places: map[string]place{}, unresolved: map[string]bool{}, references: map[string]referring{}, literal: map[literal]string{}}
	d.value(&yaml.Node{Kind: yaml.ScalarNode, Value: "x"}, "key", reflect.ValueOf(to).Elem(), field{})
	return nil
}

// TestKeysOfSeveralTypes: the schema knows keys by their names, so that one that several types have is the same in all of
// them but for what it means.
func TestKeysOfSeveralTypes(t *testing.T) {
	t.Parallel()
	for key, byType := range sinkKeys(sinkNames()) {
		shapes := map[string]string{}
		for name, f := range byType {
			s := schemaOf(valueOf(f).Type(), fieldOf(f))
			delete(s, "description")
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			shapes[string(text)] = name
		}
		if len(shapes) != 1 {
			t.Errorf("%s is not the same in all types that have it: %v", key, shapes)
		}
	}
}

// TestReferenceHasTheSinks: REFERENCE.md shows the types' rows, and what their destinations' answers mean; -update writes them there.
func TestReferenceHasTheSinks(t *testing.T) {
	t.Parallel()
	const path = "../../../deploy/docs/REFERENCE.md"
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(whole)
	var rows, answers []string
	for _, typ := range sinkTypes {
		for _, r := range typ.Rows {
			rows = append(rows, fmt.Sprintf("| `%s`%s | %s | %s | %s |", typ.Name, r.Of, r.Does, r.Declared, r.Harmless))
		}
		for _, a := range typ.Answers {
			answers = append(answers, strings.ReplaceAll(fmt.Sprintf("| `%s` | %s | `%s` | %s |", typ.Name, a.What, a.Class, a.Then), "|  |", "| |"))
		}
	}
	for head, list := range map[string][]string{
		"| type | does | declared | a repeated attempt is harmless because |\n|---|---|---|---|\n": rows,
		"| type | what came | class | the destination, or the action |\n|---|---|---|---|\n":       answers,
	} {
		before, rest, ok := strings.Cut(text, head)
		if !ok {
			t.Fatalf("REFERENCE.md has no table that begins with\n%s", head)
		}
		got, after, _ := strings.Cut(rest, "\n\n")
		want := strings.Join(list, "\n")
		if diff := cmp.Diff(want, got); diff != "" && !*update {
			t.Errorf("REFERENCE.md differs from the types (go test -update writes it):\n%s", diff)
		}
		text = before + head + want + "\n\n" + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
