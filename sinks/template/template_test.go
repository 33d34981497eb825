package template_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

var declared = []template.Param{
	{Name: "text", Kind: template.Text}, {Name: "list", Kind: template.Texts}, {Name: "any", Kind: template.Value},
	{Name: "values", Kind: template.List}, {Name: "object", Kind: template.Object},
	{Name: "level", Kind: template.Text, Values: []string{"info", "error"}},
}

const body = `{"issue":{"number":42,"title":"It \"breaks\"","body":null,"labels":[{"name":"bug"},{"name":"p1"}],"open":true},
	"big":123456789012345678901234567890,"id":9007199254740993,"unsigned":18446744073709551615,"ratio":1.5,"small":1e-9,"brace":"}}"}`

func action(data string) sink.Action {
	return sink.Action{
		ID: "act_1", Name: "notify", Subscription: "acme.triage", Attempt: 3, Late: true, Reason: "filled",
		Event: &schemas.Event{
			ID: "d-1", DeliveryID: "guid-1", Source: "/acme/github", Type: "com.github.issues.opened", Entity: schemas.NewEntityKey("186853002", "a/b"),
			Time: time.Date(2026, 3, 1, 10, 0, 0, 5e8, time.UTC), Version: schemas.Version{Kind: schemas.Sequence, Value: 7},
			Deleted: true, Data: []byte(data),
		},
	}
}

func render(t testing.TB, values map[string]any, data string) (template.Values, error) {
	t.Helper()
	p, err := template.Compile(declared, values)
	if err != nil {
		t.Fatalf("%v: %v", values, err)
	}
	return p.Render(action(data))
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"":                  "",
		"plain } }} { text": "plain } }} { text",
		"Issue {{body.issue.number}}: {{body.issue.title}}":           `Issue 42: It "breaks"`,
		"{{body.issue.number}}":                                       "42",
		" {{ body.issue.open }} ":                                     " true ",
		"{{body.big}}!":                                               "123456789012345678901234567890!",
		"{{body.id}} {{body.unsigned}} {{body.ratio}} {{body.small}}": "9007199254740993 18446744073709551615 1.5 1e-9",
		"{{'{{'}}x{{'}}'}}":                                           "{{x}}",
		"{{{'a': {'b': 'c'}}.a.b}}":                                   "c",
		"{{[{'a': 1}][0].a}}{{1}}":                                    "11",
		`{{"\"}}"}}`:                                                  `"}}`,
		`{{r'\'}}`:                                                    `\`,
		`{{'''a'}}'''}}`:                                              `a'}}`,
		"{{1 // }} not yet\n}}":                                       "1",
		"{{body.brace}}":                                              "}}",
		"{{body.issue.body == null ? 'none' : body.issue.body}}":          "none",
		"{{event.id}} {{event.delivery}} {{event.source}} {{event.type}}": "d-1 guid-1 /acme/github com.github.issues.opened",
		"{{event.entity}} {{event.parts[1]}} {{event.version}}":           "186853002/a%2Fb a/b 00000000000000000007",
		"{{event.time}} {{event.time.getFullYear()}}":                     "2026-03-01T10:00:00.5Z 2026",
		"{{event.late}} {{event.deleted}} {{event.reason}}":               "true true filled",
		"{{action.id}} {{action.name}} {{action.attempt}}":                "act_1 notify 3",
		"{{event.type.startsWith('com.github.') ? 'GitHub' : '?'}}!":      "GitHub!",
	} {
		v, err := render(t, map[string]any{"text": source}, body)
		if err != nil || v.Text("text") != want {
			t.Errorf("%s: %q, %v, want %q", source, v.Text("text"), err, want)
		}
	}
}

func TestValuesKeepTheirTypes(t *testing.T) {
	t.Parallel()
	v, err := render(t, map[string]any{
		"any": map[string]any{
			"n": "{{body.issue.number}}", "s": "{{body.issue.title}}", "t": "n={{body.issue.number}}", "b": "{{body.issue.open}}", "null": "{{body.issue.body}}",
			"list": []any{"{{body.ratio}}", true, int64(3), 4, 1.25, json.Number("10"), []any{}}, "all": "{{body.issue.labels.map(l, l.name)}}", "big": "{{body.big}}",
		},
		"list": "{{body.issue.labels.map(l, l.name)}}",
	}, body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"any":{"all":["bug","p1"],"b":true,"big":123456789012345678901234567890,"list":[1.5,true,3,4,1.25,10,[]],"n":42,"null":null,` +
		`"s":"It \"breaks\"","t":"n=42"},"list":["bug","p1"]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestListsOfTexts(t *testing.T) {
	t.Parallel()
	v, err := render(t, map[string]any{"list": []any{"a", "{{body.issue.labels[0].name}}", 3, "{{has(body.nope) ? body.nope : null}}", "{{body.issue.number > 9 ? dyn('many') : dyn(null)}}"}}, body)
	if diff := cmp.Diff([]string{"a", "bug", "3", "many"}, v.Texts("list")); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// What is null is left out, whatever the parameter's kind.
func TestNullIsLeftOut(t *testing.T) {
	t.Parallel()
	v, err := render(t, map[string]any{"text": "{{body.issue.body}}", "list": "{{body.issue.body}}", "any": "{{null}}"}, body)
	if err != nil || len(v) != 0 {
		t.Errorf("%v %v", v, err)
	}
}

func TestEmptyBodyIsNull(t *testing.T) {
	t.Parallel()
	v, err := render(t, map[string]any{"text": "{{body == null ? 'nothing' : 'something'}}"}, "")
	if err != nil || v.Text("text") != "nothing" {
		t.Errorf("%v %v", v, err)
	}
}

// What no template reads may be anything.
func TestBodyIsReadWhereItIsNamed(t *testing.T) {
	t.Parallel()
	if v, err := render(t, map[string]any{"text": "{{event.id}}"}, "no JSON"); err != nil || v.Text("text") != "d-1" {
		t.Errorf("%v %v", v, err)
	}
}

// A form's fields are the members of its body.
func TestFormsAreRead(t *testing.T) {
	t.Parallel()
	p, err := template.Compile(declared, map[string]any{"text": "{{body.text}} in {{body.channel[1]}}"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ kind, body, want string }{
		{"application/x-www-form-urlencoded; charset=utf-8", "text=api+prod%21&channel=a&channel=b", "api prod! in b"},
		{"application/x-www-form-urlencoded", "text=%zz", "is said to be a form, and is none"},
		{"text/plain", "text=x&channel=a&channel=b", "cannot be read as JSON"},
	} {
		a := action(test.body)
		a.Event.DataContentType = test.kind
		v, err := p.Render(a)
		if err == nil && v.Text("text") != test.want || err != nil && (sink.ClassOf(err) != sink.ClassTemplate || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, %v", test.body, v, err)
		}
	}
}

func TestRenderFails(t *testing.T) {
	t.Parallel()
	secret := `"hunter2"`
	long := `"` + strings.Repeat("hunter2", 40_000) + `"`
	for _, tt := range []struct {
		name        string
		value       any
		param, body string
		want        string
	}{
		{"missing", "a {{body.nope}}", "text", `{}`, "params.text {{body.nope}} fails at character 5: a value is missing"},
		{"null in a text", "a {{body.x}}", "text", `{"x":null}`, "params.text {{body.x}} is null: say what stands there instead"},
		{"list in a text", "a {{body.x}}", "text", `{"x":[1]}`, "params.text {{body.x}} is a list or an object"},
		{"list for a text", "{{body.x}}", "text", `{"x":[1]}`, "params.text is a list or an object"},
		{"text for a list", "{{body.x}}", "list", `{"x":` + secret + `}`, "params.list is not a list"},
		{"text for a list of values", "{{body.x}}", "values", `{"x":` + secret + `}`, "params.values is not a list"},
		{"list for an object", "{{body.x}}", "object", `{"x":[]}`, "params.object is not an object"},
		{"object in a list", []any{"a", "{{body.x}}"}, "list", `{"x":{}}`, "params.list [1] is a list or an object"},
		{"no JSON", "{{body.x}}", "text", `hunter2`, "cannot be made: the event's body cannot be read as JSON: syntax at byte 0"},
		{"key twice", "{{body.x}}", "text", `{"x":1,"x":"hunter2"}`, "duplicate_key at byte"},
		{"of another type", "{{body.x + 1}}", "text", `{"x":` + secret + `}`, "fails at character 8"},
		{"key that is a value", "{{body[body.x]}}", "text", `{"x":` + secret + `}`, "fails at character 5"},
		{"cost", "{{body.map(x, body.map(y, body.map(z, x)))}}", "any", "[" + strings.Repeat("1,", 99) + "1]", "takes more than 100000 steps"},
		{"long text", "{{body}}", "text", long, "params.text {{body}} is too large: an expression gives at most 262144 bytes, nested at most 128 deep"},
		{"long text in a text", "{{body}}{{body}}{{body}}{{body}}", "text", long[:80_000] + `"`, "params.text is longer than 262144 bytes"},
		{"much in all", []any{"{{body}}", "{{body}}", "{{body}}", "{{body}}", "{{body}}"}, "any", `"` + strings.Repeat("x", 250_000) + `"`, "params.any [4] is too large: all parameters together"},
		{"deep inside", map[string]any{"a": []any{map[string]any{"b": "{{body.nope}}"}}}, "any", `{}`, "params.any .a [0] .b {{body.nope}} fails"},
		{"not of the list", "{{body}}", "level", secret, "params.level is not one of info, error"},
		{"bytes", "{{bytes(body)}}", "any", secret, "gives a value of type bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := render(t, map[string]any{tt.param: tt.value}, tt.body)
			if sink.ClassOf(err) != sink.ClassTemplate || !sink.Untouched(err) || v != nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, %v, want %s", v, err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 300 {
				t.Errorf("the error shows the event, or is long: %v", err)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	even := []template.Param{{Name: "a", Kind: template.Text, Check: func(s string) error {
		if len(s)%2 != 0 {
			return errors.New("is odd")
		}
		return nil
	}}}
	if _, err := template.Compile(even, map[string]any{"a": "odd"}); err == nil || err.Error() != "a is odd" {
		t.Errorf("a literal: %v", err)
	}
	p, err := template.Compile(even, map[string]any{"a": "x{{body}}"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Render(action(`"xy"`)); sink.ClassOf(err) != sink.ClassTemplate || !strings.Contains(err.Error(), "params.a is odd") {
		t.Errorf("what was made: %v", err)
	}
	if v, err := p.Render(action(`"x"`)); err != nil || v.Text("a") != "xx" {
		t.Errorf("%v %v", v, err)
	}
}

// What an expression gives is escaped where the parameter says so, what is literal is not.
func TestEscape(t *testing.T) {
	t.Parallel()
	loud := func(around map[string]any, name string) func(string) string {
		if around == nil && name == "text" || name == "loud" && around["kind"] == "big" {
			return strings.ToUpper
		}
		return nil
	}
	p, err := template.Compile([]template.Param{{Name: "text", Kind: template.Text, Escape: loud}, {Name: "any", Kind: template.Value, Escape: loud}}, map[string]any{
		"text": "a {{body.x}} {{'b'}} {{1}}",
		"any": []any{map[string]any{"kind": "big", "loud": "a {{body.x}}", "soft": "{{body.x}}"}, map[string]any{"kind": "small", "loud": "{{body.x}}"},
			map[string]any{"kind": "big", "loud": "{{[body.x, {'k': body.x}]}}"}, "{{[{'kind': 'big', 'loud': [body.x], 'soft': body.x}, {'loud': body.x}]}}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	v, err := p.Render(action(`{"x":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(v)
	const want = `{"any":[{"kind":"big","loud":"a X","soft":"x"},{"kind":"small","loud":"x"},{"kind":"big","loud":["X",{"k":"X"}]},[{"kind":"big","loud":["X"],"soft":"x"},{"loud":"x"}]],"text":"a X B 1"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRequired(t *testing.T) {
	t.Parallel()
	needed := []template.Param{{Name: "a", Kind: template.Text, Required: true}, {Name: "b", Kind: template.Text, Required: true, Default: "{{event.id}}"}}
	p, err := template.Compile(needed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Render(action("{}")); sink.ClassOf(err) != sink.ClassTemplate || !strings.Contains(err.Error(), "params.a is null, empty or not given") {
		t.Errorf("%v", err)
	}
	if p, err = template.Compile(needed, map[string]any{"a": "{{body}}"}); err != nil {
		t.Fatal(err)
	}
	for _, nothing := range []string{"null", `""`} {
		if _, err := p.Render(action(nothing)); sink.ClassOf(err) != sink.ClassTemplate {
			t.Errorf("%s for what is needed: %v", nothing, err)
		}
	}
	if v, err := p.Render(action(`"x"`)); err != nil || v.Text("a") != "x" || v.Text("b") != "d-1" {
		t.Errorf("%v %v", v, err)
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	deep := any("x")
	for range 40 {
		deep = []any{deep}
	}
	many := make([]any, 201)
	for i := range many {
		many[i] = "x"
	}
	for _, tt := range []struct {
		values map[string]any
		key    string
		want   string
	}{
		{map[string]any{"txt": "x"}, "txt", "is no parameter here; there are text, list, any, values, object, level"},
		{map[string]any{"text": "a {{"}, "text", "has {{ at character 3 without }}"},
		{map[string]any{"text": "{{ 'a }} b"}, "text", "has {{ at character 1 without }}"},
		{map[string]any{"text": "{{ (1 }}"}, "text", "has {{ at character 1 without }}"},
		{map[string]any{"text": "{{ }}"}, "text", "has {{}} without an expression"},
		{map[string]any{"text": "{{body.}}"}, "text", "{{body.}} is not an expression: at character 6: Syntax error"},
		{map[string]any{"text": "{{bdy}}"}, "text", "undeclared reference to 'bdy' (did you mean 'body'?)"},
		{map[string]any{"text": "{{event.typ}}"}, "text", "undeclared reference to 'event.typ' (did you mean 'event.type'?)"},
		{map[string]any{"text": "{{header['x']}}"}, "text", "undeclared reference to 'header'"},
		{map[string]any{"text": "{{event.parts}}"}, "text", "is an expression of type list(string), and must give one of string, int, uint, bool, double, timestamp, duration, null_type"},
		{map[string]any{"text": "a {{event.parts}}"}, "text", "is an expression of type list(string)"},
		{map[string]any{"text": "{{event.id + 1}}"}, "text", "found no matching overload"},
		{map[string]any{"text": []any{"a"}}, "text", "is a list or an object: one text is wanted"},
		{map[string]any{"text": map[string]any{}}, "text", "is a list or an object: one text is wanted"},
		{map[string]any{"text": nil}, "text", "is null: leave it out"},
		{map[string]any{"list": "a"}, "list", "is not a list of texts, and not one expression that gives one"},
		{map[string]any{"list": "{{body}} {{body}}"}, "list", "is not a list of texts"},
		{map[string]any{"list": map[string]any{"a": "b"}}, "list", "is not a list of texts"},
		{map[string]any{"list": "{{event.id}}"}, "list", "type string, and must give one of list"},
		{map[string]any{"list": []any{"a", "{{event.parts}}"}}, "list[1]", "is an expression of type list(string)"},
		{map[string]any{"values": "a"}, "values", "is not a list, and not one expression that gives one"},
		{map[string]any{"values": "{{event.id}}"}, "values", "type string, and must give one of list"},
		{map[string]any{"values": []any{"{{nope}}", 1, map[string]any{}}}, "values[0]", "undeclared reference to 'nope'"},
		{map[string]any{"object": []any{}}, "object", "is not an object, and not one expression that gives one"},
		{map[string]any{"object": "{{event.parts}}"}, "object", "type list(string), and must give one of map"},
		{map[string]any{"any": map[string]any{"a": []any{map[string]any{"b": "{{nope}}"}}}}, "any.a[0].b", "undeclared reference to 'nope'"},
		{map[string]any{"any": map[string]any{"{{x}}": 1}}, "any.{{x}}", "only values are templates"},
		{map[string]any{"any": deep}, "any" + strings.Repeat("[0]", 33), "is nested deeper than 32"},
		{map[string]any{"text": strings.Repeat("{{body.a}} ", 501)}, "text", "has one expression too many: 500 in all parameters are the most"},
		{map[string]any{"any": []any{strings.Repeat("{{1}} ", 300), strings.Repeat("{{2}} ", 201)}}, "any[1]", "has one expression too many"},
		{map[string]any{"any": many}, "any[200]", "is one text too many: 200 are the most"},
		{map[string]any{"level": "warn"}, "level", `is not one of info, error`},
		{map[string]any{"text": "{{" + strings.Repeat("1+", 1500) + "1}}"}, "text", "is not an expression"},
	} {
		_, err := template.Compile(declared, tt.values)
		bad, ok := errors.AsType[*template.KeyError](err)
		if !ok || bad.Key != tt.key || !strings.Contains(bad.Err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80v: %v, want %s ... %s", tt.values, err, tt.key, tt.want)
		}
	}
}

func TestActionsStandOverTheirDestination(t *testing.T) {
	t.Parallel()
	s, err := template.NewSet(declared, map[string]any{"text": "of the destination", "list": []any{"a"}},
		map[string]map[string]any{"acme.triage/notify": {"text": "of {{action.name}}"}, "acme.triage/other": {"list": []any{}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"notify": "of notify [a]", "other": "of the destination []", "third": "of the destination [a]"} {
		a := action("{}")
		a.Name = name
		v, err := s.Render(a)
		if got := fmt.Sprint(v.Text("text"), " ", v.Texts("list")); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
	for _, tt := range []struct {
		params  map[string]any
		actions map[string]map[string]any
		want    bool
	}{{nil, nil, true}, {map[string]any{"text": "x"}, nil, false}, {nil, map[string]map[string]any{"acme.triage/notify": {"text": "x"}}, false}} {
		if s, err := template.NewSet(declared, tt.params, tt.actions); err != nil || s.Empty() != tt.want {
			t.Errorf("%v: empty is %v, %v", tt, s.Empty(), err)
		}
	}
	if _, err := template.NewSet(declared, nil, map[string]map[string]any{"acme.triage/notify": {"text": "{{"}}); err == nil {
		t.Error("an action's template was not compiled")
	}
}

func TestRenderIsConcurrent(t *testing.T) {
	t.Parallel()
	p, err := template.Compile(declared, map[string]any{"text": "{{body.n}} {{event.id}}"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 50 {
				v, err := p.Render(action(fmt.Sprintf(`{"n":%d}`, i)))
				if want := fmt.Sprintf("%d d-1", i); err != nil || v.Text("text") != want {
					t.Errorf("%v %v, want %s", v, err, want)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzTemplate: no string and no body make compiling or rendering panic; a string without {{ is itself; what is
// rendered can be written as JSON; errors name the key and are of class template.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"plain", "{{body}}", "a {{body.a}} b", "{{'}}'}}", "{{ {'a':1}.a }}", "{{", "}}", "{{{{}}}}", "{{r'\\'}}", "{{'''", "{{//", "{{body.map(x, x)}}",
		"{{event.time + duration('1h')}}", "{{b'a'}}", "{{1.0/0.0}}", "{{type(body)}}", "{{{1:2}}}", "{{event.parts}}", "{{-9223372036854775808}}"} {
		f.Add(s, []byte(`{"a":[1,18446744073709551616,1e999,{"b":"é"}]}`))
	}
	f.Fuzz(func(t *testing.T, source string, data []byte) {
		p, err := template.Compile(declared, map[string]any{"text": source, "any": []any{source}})
		if err != nil {
			if bad, ok := errors.AsType[*template.KeyError](err); !ok || bad.Key == "" {
				t.Fatalf("%v names no key", err)
			}
			return
		}
		v, err := p.Render(action(string(data)))
		if err != nil {
			if sink.ClassOf(err) != sink.ClassTemplate {
				t.Fatalf("%v is not of class template", err)
			}
			return
		}
		if _, err := json.Marshal(v); err != nil {
			t.Fatalf("%v cannot be written: %v", v, err)
		}
		if !strings.Contains(source, "{{") && v.Text("text") != source {
			t.Fatalf("%q became %q", source, v.Text("text"))
		}
	})
}
