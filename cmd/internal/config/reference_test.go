package config

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const (
	referencePage = "CONFIGURATION.md"
	referenceFile = "testdata/reference/forebay.yaml"
)

// TestReferenceIsTheDeclaration: CONFIGURATION.md says what shape.go and the sinks' specs declare, with examples out of a file that has
// every key and that `config check` takes; -update writes it.
func TestReferenceIsTheDeclaration(t *testing.T) {
	t.Parallel()
	c, err := Load(Options{Path: referenceFile, Lookup: referenceVariable})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	r := &referenceWriter{examples: map[exampleKey]string{}, sections: map[reflect.Type]string{}, also: map[reflect.Type][]string{}}
	r.collect(reflect.ValueOf(c).Elem(), document.Content[0])
	r.name(reflect.TypeFor[Config](), "")
	page := r.page()
	for _, missing := range r.missing {
		t.Errorf("%s has no example of %s", referenceFile, missing)
	}
	if *update {
		if err := os.WriteFile(referencePage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(page, string(got)); diff != "" {
		t.Errorf("%s (+) differs from the declarations (-); `go test ./cmd/internal/config -update` writes it:\n%s", referencePage, diff)
	}
}

// referenceVariable is the environment of the file.
func referenceVariable(name string) (string, bool) {
	const signing = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	return cmp.Or(map[string]string{
		"FOREBAY_POSTGRES_URL": "postgres://forebay@postgres/forebay", "FULFIL_POSTGRES_URL": "postgres://forebay@fulfil/forebay", "WAREHOUSE_URL": "postgres://forebay:password@10.0.0.9:5432/warehouse",
		"AGENTS_SECRET": "0123456789abcdef0123456789abcdef", "ROUTING_KEY": "0123456789abcdef0123456789abcdef", "ORDERS_SECRET": "6f7264657273",
		"CODER_SECRET": signing, "TEAM_BETA_HOOKS_SECRET": signing, "BUILDS_SECRET": signing,
	}[name], name), true
}

// exampleKey is a key of a mapping of this type, or with sink, of a type of destination; of its params where param is set.
type exampleKey struct {
	of    reflect.Type
	sink  string
	param bool
	name  string
}

type referenceWriter struct {
	examples map[exampleKey]string
	sections map[reflect.Type]string   // the path of each mapping
	also     map[reflect.Type][]string // where else it may stand
	order    []reflect.Type
	missing  []string
	b        strings.Builder
}

// collect keeps what n has at each key of v as its example, if it is the first.
func (r *referenceWriter) collect(v reflect.Value, n *yaml.Node) {
	switch {
	case v.Kind() == reflect.Pointer:
		r.collect(v.Elem(), n)
	case v.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			r.collect(v.Index(i), item)
		}
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Pointer:
		for i := 0; i < len(n.Content); i += 2 {
			r.collect(v.MapIndex(reflect.ValueOf(n.Content[i].Value)), n.Content[i+1])
		}
	case v.Kind() == reflect.Struct && n.Kind == yaml.MappingNode && !isScalar(v.Type()):
		for _, m := range members(v) {
			if value := under(n, m.name); value != nil {
				r.keep(exampleKey{of: v.Type(), sink: sinkOf(v, m.name), name: m.name}, value)
				r.collect(m.value, value)
			}
		}
		if params := under(n, "params"); params != nil && v.Type() == destinationType {
			for i := 0; i < len(params.Content); i += 2 {
				r.keep(exampleKey{of: destinationType, sink: v.Addr().Interface().(*Destination).Type, param: true, name: params.Content[i].Value}, params.Content[i+1])
			}
		}
	}
}

// sinkOf returns the type of a destination, if the key is one that it has by its type.
func sinkOf(v reflect.Value, key string) string {
	if v.Type() == destinationType {
		d := v.Addr().Interface().(*Destination)
		for _, f := range d.about().Fields {
			if f.Name == key {
				return d.Type
			}
		}
	}
	return ""
}

func under(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func (r *referenceWriter) keep(key exampleKey, n *yaml.Node) {
	if _, ok := r.examples[key]; !ok {
		r.examples[key] = flow(n)
	}
}

// flow writes a value in one line.
func flow(n *yaml.Node) string {
	one := *n
	one.HeadComment, one.LineComment, one.FootComment = "", "", ""
	if one.Kind != yaml.ScalarNode {
		one.Style = yaml.FlowStyle
	}
	out, err := yaml.Marshal(&one)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(out))
}

// mappingOf returns the type of the mapping that a value is, or is made of, if it has declared keys.
func mappingOf(t reflect.Type) (of reflect.Type, below string) {
	switch {
	case t.Kind() == reflect.Pointer:
		return mappingOf(t.Elem())
	case t.Kind() == reflect.Slice:
		of, _ = mappingOf(t.Elem())
		return of, "[]"
	case t.Kind() == reflect.Map && t != paramsType:
		of, _ = mappingOf(t.Elem())
		return of, ".NAME"
	case shapes[t] != nil:
		return t, ""
	}
	return nil, ""
}

// name gives t, and the mappings that are below it, the path that they are first found at.
func (r *referenceWriter) name(t reflect.Type, path string) {
	if _, ok := r.sections[t]; ok {
		r.also[t] = append(r.also[t], "`"+path+"`")
		return
	}
	r.sections[t] = path
	r.order = append(r.order, t)
	for _, m := range members(reflect.New(t).Elem()) {
		if of, below := mappingOf(m.value.Type()); of != nil {
			r.name(of, join(path, m.name)+below)
		}
	}
}

const referenceHead = `# Configuration

Every key of the file, with its default and an example. This page is made of the declarations that read the file, by
` + "`go test ./cmd/internal/config -update`" + `, and a test holds it to them; the examples are out of [a file](` + referenceFile + `) that ` + "`forebay config check`" + ` takes.
` + "`forebay config init`" + ` writes a file to begin with, ` + "`forebay config show`" + ` prints yours with all defaults, ` + "`forebay config schema`" + ` the JSON Schema for
editors.

Durations are those of Go, with ` + "`d`" + ` for days: ` + "`1h30m`, `7d`" + `. Sizes are bytes, or KiB, MiB, GiB. ` + "`${env:NAME}` and `${file:PATH}`" + ` work in every value; inside
` + "`[]` and `{}`" + ` they need quotes, and ` + "`$${`" + ` is a literal ` + "`${`" + `. A relative path is relative
to the file that it stands in. Names of teams, sources, destinations, subscriptions and actions match ` + "`[a-z0-9-]{1,40}`" + `. Files of
` + "`teams_dir`" + ` have ` + "`version` and `teams`" + ` alone.

One word means one thing everywhere:

| word | is |
|---|---|
| ` + "`rate: {limit, per, burst}`" + ` | a token bucket: so many in that time in the long run, so many at once |
| ` + "`retry: {attempts, within, min, max}`" + ` | how often and for how long something is tried |
| ` + "`timeout`" + ` | how long one call, one body, one transaction may take |
| ` + "`within`" + ` | how long all tries of one thing may take together |
| ` + "`deadline`" + ` | how long somebody waits for an answer: the provider for the intake's, Forebay for the result of long work |
| ` + "`wait`, `max_wait`" + ` | how long is waited before something follows, and for how long at most |
| ` + "`after`" + ` | for how long something must have been so before something follows |
| ` + "`window`" + ` | for how long something counts |
| ` + "`retention`" + ` | for how long something is kept |
| ` + "`connections`, `concurrency`" + ` | how many of them, of attempts, at once |
| ` + "`memory`" + ` | how much of it all together |
| ` + "`max_...`" + ` | the most that one thing may be, have or wait |
| ` + "`allow_networks`, `trusted_proxies`" + ` | networks in CIDR form: that may be called, whose word is taken |
`

func (r *referenceWriter) page() string {
	r.b.WriteString(referenceHead)
	for _, t := range r.order {
		fmt.Fprintf(&r.b, "\n## %s\n\n%s\n\n", cmp.Or(r.sections[t], "The file"), markdown(shapes[t].doc))
		if also := r.also[t]; len(also) > 0 {
			fmt.Fprintf(&r.b, "The same keys: %s.\n\n", strings.Join(also, ", "))
		}
		r.head()
		for _, m := range members(reflect.New(t).Elem()) {
			r.row(exampleKey{of: t, name: m.name}, m.field, m.value.Type())
		}
		if t == destinationType {
			r.sinks()
		}
	}
	return r.b.String()
}

// sinks writes the keys and the params of each type of destination.
func (r *referenceWriter) sinks() {
	for _, typ := range sinkTypes {
		about := typ.New().Describe()
		fmt.Fprintf(&r.b, "\n### type: %s\n\n", typ.Name)
		for _, row := range typ.Rows {
			fmt.Fprintf(&r.b, "- `%s`%s: %s (%s)\n", typ.Name, row.Of, row.Does, row.Declared)
		}
		if len(about.Fields)+len(about.Params) == 0 {
			continue
		}
		r.b.WriteString("\n")
		r.head()
		for _, f := range about.Fields {
			declared := fieldOf(f)
			declared.required = f.Required
			r.row(exampleKey{of: destinationType, sink: typ.Name, name: f.Name}, declared, valueOf(f).Type())
		}
		for _, p := range about.Params {
			r.row(exampleKey{of: destinationType, sink: typ.Name, param: true, name: p.Name},
				field{name: "params." + p.Name, doc: p.Doc, def: p.Default, values: p.Values, required: p.Required}, reflect.TypeFor[string]())
		}
	}
}

func (r *referenceWriter) head() {
	r.b.WriteString("| key | meaning | default | example |\n|---|---|---|---|\n")
}

// row writes one key.
func (r *referenceWriter) row(key exampleKey, f field, t reflect.Type) {
	meaning := markdown(f.doc)
	if len(f.values) > 1 {
		meaning += " One of `" + strings.Join(f.values, "`, `") + "`."
	}
	def := cmp.Or(markdown(f.computed), "-")
	switch {
	case f.required:
		def = "required"
	case f.def != "":
		def = "`" + strings.ReplaceAll(f.def, "|", `\|`) + "`"
	}
	example, ok := r.examples[key]
	if !ok {
		r.missing = append(r.missing, fmt.Sprintf("%s %s.%s", key.sink, cmp.Or(r.sections[key.of], "the file"), f.name))
	}
	example = "`" + strings.ReplaceAll(example, "|", `\|`) + "`"
	if of, _ := mappingOf(t); of != nil {
		example = fmt.Sprintf("[its keys](#%s)", anchor(r.sections[of]))
		if def == "-" {
			def = "of its keys"
			if slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
				def = "none"
			}
		}
	}
	fmt.Fprintf(&r.b, "| `%s` | %s | %s | %s |\n", f.name, meaning, def, example)
}

// anchor returns where GitHub puts a heading.
func anchor(heading string) string {
	return strings.Map(func(c rune) rune {
		if c == '.' || c == '[' || c == ']' {
			return -1
		}
		return c
	}, strings.ToLower(heading))
}

// markdown returns a text as a cell shows it.
func markdown(text string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`).Replace(text)
}
