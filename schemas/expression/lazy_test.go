package expression_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
)

func event(body string) *schemas.Event {
	return &schemas.Event{ID: "e-1", Source: "/acme/github", Type: "com.github.issues.opened", Entity: "1/42", DeliveryID: "d-1", Time: time.Unix(1_700_000_000, 0).UTC(),
		Sender: schemas.Sender{ID: "7", Login: "ann", Kind: schemas.Human}, Version: schemas.Version{Kind: schemas.Sequence, Value: 7},
		Headers: []schemas.Header{{Name: "x-event", Value: "first"}, {Name: "x-event", Value: "second"}}, Data: []byte(body)}
}

// TestWhoAndByWhom: trust and chain are those of the event, and of an event without them empty.
func TestWhoAndByWhom(t *testing.T) {
	t.Parallel()
	full, bare := event("{}"), event("{}")
	full.Sender.Trust, full.Chain = schemas.Collaborator, schemas.Chain{Agents: []string{"planner", "coder"}, Depth: 5}
	for text, want := range map[string][2]bool{
		"sender.trust == 'collaborator'": {true, false}, "sender.trust in ['owner', 'member', 'collaborator']": {true, false}, "sender.trust == ''": {false, true},
		"chain.depth == 5": {true, false}, "chain.depth > 0": {true, false}, "chain.depth == 0": {false, true},
		"'coder' in chain.agents": {true, false}, "chain.agents == ['planner', 'coder']": {true, false}, "chain.agents.size() == 0": {false, true}, "chain.agents == []": {false, true},
		"chain.agents.exists(a, a.startsWith('plan')) && chain.agents[1] == 'coder'": {true, false},
	} {
		x, err := expression.Condition(text)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range []*schemas.Event{full, bare} {
			if got, err := (&expression.Input{Event: e}).True(x); err != nil || got != want[i] {
				t.Errorf("%s: %v, %v, want %v", text, got, err, want[i])
			}
		}
	}
}

// odd has, beside what expressions name, what no strict reader takes.
const odd = `{"n":1,"twice":1,"twice":2,"bad":"\ud800","\ud800":1,"list":[{"name":"a","x":"\udc00"},{"name":"b","k":1,"k":2},null,[1,2]],
	"inner":{"n":2,"deep":{"n":3},"twice":1,"twice":1},"none":null,"text":"\u00e9","ok":true,"big":123456789012345678901234567890}`

func TestConditionsReadWhatTheyName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"body.n == 1 && body.inner.n == 2 && body.inner.deep.n == 3":                             "true",
		"body.list[0].name + body.list[1].name == 'ab' && body.list[2] == null":                  "true",
		"body.list.size() == 4 && body.list[3] == [1, 2] && 2 in body.list[3]":                   "true",
		"body.list[3].all(x, x > 0) && body.list[3] + [3] == [1, 2, 3]":                          "true",
		"body.list.exists(l, l != null && l.name == 'b')":                                        "true", // what fails on the last stops nothing
		"has(body.inner.deep) && !has(body.inner.nope) && has(body.text)":                        "true",
		"'n' in body && !('nope' in body) && body.ok && body.text == 'é'":                        "true",
		"body.?inner.?deep.?n.orValue(0) == 3 && body.?nope.?n.orValue(9) == 9":                  "true",
		"body.inner.deep == {'n': 3} && body.inner.deep.map(k, k) == ['n'] && type(body) == map": "true",
		"body[?'inner'].hasValue() && body.none == null && size(body.inner) == 3":                "true",
		"body.big == body.big && body.list[3][1] == 2 && body['inner']['deep']['n'] == 3":        "true",
		"event.type.endsWith('.opened') && event.subject == entity.key && event.id == 'e-1'":     "true",
		"headers['x-event'] == 'first' && !('x-secret' in headers)":                              "true",
		"sender.kind == 'human' && sender.login == 'ann' && sender.trust == ''":                  "true",
		"action.name == 'run' && action.to == 'coder' && chain.depth == 0":                       "true",
		"int(entity.version) == 7 && event.time < timestamp('2024-01-01T00:00:00Z')":             "true",
		"event.source == '/acme/github' || body.nope":                                            "true", // never asked
		"body.n == 2":                   "false",
		"body.twice == 1":               "fails at character 5: the body cannot be read there: duplicate_key at byte",
		"has(body.bad)":                 "fails at character 4: the body cannot be read there: bad_string at byte",
		"body.list[1].k == 1":           "duplicate_key",
		"body.inner == {}":              "duplicate_key",
		"body.inner.all(k, k != 'x')":   "duplicate_key",
		"body.list[0].x == ''":          "bad_string",
		"body == {}":                    "duplicate_key",
		"body.list == []":               "bad_string",
		"body.list.exists(l, l.k == 7)": "fails",
		"body.nope == 1":                "fails at character 5: a value is missing, of another type or out of range",
		"body.list[4] == 1":             "a value is missing",
		"body.list['a'] == 1":           "a value is missing",
		"body.none.n == 1":              "a value is missing",
		"body[1] == 1":                  "a value is missing",
		"body.n":                        "a value is missing, of another type",
		"headers['nope'] == ''":         "a value is missing",
		"body.list.all(a, body.list.all(b, body.list.all(c, body.list.all(d, body.list.all(e, body.list.all(f, body.list.all(g, body.list.all(h, a == b || true))))))))": "takes more than 100000 steps",
	} {
		x, err := expression.Condition(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		in := &expression.Input{Event: event(odd), Action: "run", To: "coder"}
		got, err := in.True(x)
		switch {
		case want == "true" || want == "false":
			if err != nil || got != (want == "true") {
				t.Errorf("%s: %v, %v", text, got, err)
			}
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestConditionsOfOtherBodies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, body, text, want string }{
		{"", "", "body == null", ""},
		{"text/plain", "hello", "event.id == 'e-1'", ""},
		{"text/plain", "hello", "event.id == 'e-1' || body.x == 1", ""},
		{"text/plain", "hello", "body.x == 1", "cannot be read as JSON: syntax at byte 0"},
		{"application/json", `{"a":{"b":[1,]}}`, "has(body.x)", "cannot be read as JSON: syntax at byte"},
		{"application/x-www-form-urlencoded", "a=1&b=2&b=3", "body.a == '1' && body.b == ['2', '3'] && !has(body.c)", ""},
		{"application/x-www-form-urlencoded", "a=%zz", "body.a == '1'", "is said to be a form, and is none"},
		{"application/json", "[" + strings.Repeat("0,", 1<<18) + "0]", "body.size() == 262145", ""},
		{"application/json", "[" + strings.Repeat("0,", 1<<18) + "0]", "body[0] == 0", "too_many_values"},
		{"application/json", `{"a":[` + strings.Repeat("0,", 1<<18) + `0],"b":{"c":1}}`, "size(body.a) > 1 && size(body.b) == 0", "too_many_values"},
	} {
		x, err := expression.Condition(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		e := event(tt.body)
		e.DataContentType = tt.kind
		in := &expression.Input{Event: e}
		got, err := in.True(x)
		if tt.want == "" && (err != nil || !got) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s of %.20s: %v, %v, want %q", tt.text, tt.body, got, err, tt.want)
		}
	}
}

func TestConditionsAreBooleans(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"event.id":         "is an expression of type string, and must give one of bool",
		"1":                "is an expression of type int",
		"event.nope == 1":  "undeclared reference to 'event.nope'",
		"event.time > 5":   "found no matching overload",
		"body.?x":          "is an expression of type optional_type",
		"":                 "is not an expression",
		"sender.kind = 'x": "is not an expression",
	} {
		if _, err := expression.Condition(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzLazy: a text that a strict reader takes is the same to a lazy one, whole and piece by piece; one of bad form is none to both.
func FuzzLazy(f *testing.F) {
	for _, s := range []string{odd, `{"a":[1,{"b":"c"},null,true,-1.5e3]}`, `[]`, `"x"`, ``, `{"a":1,"a":1}`, "\ufeff{}", `{"\u0061":{"\ud83d\ude00":1}}`,
		`{"a":{"b":1},"a":{"b":{"c":2}},"b":{"b":1}}`, `{"/~a":{"b":0},"":1,"0":["1",{"1":2}],"\u00e9":"\u0000"}`, `{"a":{"b":"\ud800","b":1}} `, `{"0":{"1":2},"a":[{"b":1}]}`, `[{"a":1}]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		strict, bad := expression.JSON(text)
		lazy, err := expression.Lazy(text)
		if err != nil {
			if bad == nil {
				t.Fatalf("a lazy reader refuses what a strict one takes: %v", err)
			}
			return
		}
		namedBeforehand(t, text)
		whole, err := expression.Native(lazy, 1<<20)
		if (err == nil) != (bad == nil) {
			if !errors.Is(err, expression.ErrTooLarge) {
				t.Fatalf("read whole: %v, strictly: %v", err, bad)
			}
			return
		}
		if bad != nil {
			return
		}
		want, err := expression.Native(types.DefaultTypeAdapter.NativeToValue(strict), 1<<20)
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, whole); diff != "" {
			t.Fatal(diff)
		}
		if members, ok := strict.(map[string]any); ok {
			again, _ := expression.Lazy(text)
			x, err := everything.Compile("body[key]", nil)
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range members {
				got, err := x.Eval(activationOf(t, map[string]any{"body": again, "key": key}))
				if err != nil {
					t.Fatalf("%q: %v", key, err)
				}
				native, _ := expression.Native(got, 1<<20)
				want, _ := expression.Native(types.DefaultTypeAdapter.NativeToValue(value), 1<<20)
				if diff := cmp.Diff(want, native); diff != "" {
					t.Fatalf("%q: %s", key, diff)
				}
			}
		}
	})
}

// names are what an expression may know of a body before it is read.
var names = sync.OnceValue(func() (all []*expression.Expression) {
	for _, text := range []string{
		"body.a", "body.a.b", "body['a']['a']", "body['']", "has(body.a.b)", "body.a == body.b", "body.?a.?b.?c.orValue('none')", "body[?'twice'].hasValue()", "body.bad", "body.twice",
		"body.inner.deep.n", "body.inner.nope", "body.inner", "body['/~a'].b", "body.list[0].name", "size(body.inner) + size(body)", "body['\u00e9']", "body['0']['1']", "[body.n, body]",
	} {
		x, err := everything.Compile(text, nil)
		if err != nil {
			panic(err)
		}
		all = append(all, x)
	}
	return all
})

// namedBeforehand: a body that is read along the paths of an expression is the same as one that is read as it is asked for.
func namedBeforehand(t *testing.T, text []byte) {
	t.Helper()
	for i, x := range names() {
		if len(text) == 0 {
			return
		}
		lazy, _ := expression.Lazy(text)
		want, bad := x.Eval(activationOf(t, map[string]any{"body": lazy}))
		e := event(string(text))
		in := &expression.Input{Event: e}
		if other := names()[(i+1)%len(names())]; len(text)%2 == 1 { // the body was read along the paths of another
			_, _ = other.Eval(in)
		}
		got, err := x.Eval(in)
		if fmt.Sprint(bad) != fmt.Sprint(err) {
			t.Fatalf("expression %d: %v, as it is asked for %v", i, err, bad)
		}
		if bad != nil {
			continue
		}
		g, gerr := expression.Native(got, 1<<20)
		w, werr := expression.Native(want, 1<<20)
		if diff := cmp.Diff(w, g); diff != "" || fmt.Sprint(gerr) != fmt.Sprint(werr) {
			t.Fatalf("expression %d: %v, as it is asked for %v: %s", i, gerr, werr, diff)
		}
	}
}

var everything = expression.Over(cel.Variable("body", cel.DynType), cel.Variable("key", cel.StringType))

func activationOf(t testing.TB, values map[string]any) cel.Activation {
	t.Helper()
	a, err := cel.NewActivation(values)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// However an expression of the largest size is built, compiling it takes no longer than a reload can bear.
func TestCompileIsBounded(t *testing.T) {
	t.Parallel()
	fill := func(open, middle, end string) string {
		n := (1990 - len(middle)) / (len(open) + len(end))
		return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	for _, text := range []string{
		fill("(", "true", ")"), fill("!", "true", ""), fill("true?", "true", ":true"), fill("true?(", "true", "):true"), fill("true&&", "true", ""), fill("-", "1", "") + "==1", fill("body[", "0", "]"),
		fill("body.", "x", ""), fill("int(", "1", ")") + "==1", fill("[1].all(x,", "true", ")"), fill("optional.of(", "1", ")") + "==1", fill("body.?x.optMap(x,", "1", ")"), fill("{'a':", "1", "}") + "==1",
		fill("1+", "1", "") + "==1", fill("dyn(", "1", ")") + "==1", fill("[", "1", "]") + "==1", fill("body.x==1||", "true", ""), fill("body.?x.orValue(", "1", ")") + "==1", fill("size([", "1", "])") + "==1",
		fill("has(body.x)?[", "1", "]:[]") + "==1", fill("'a'+", "'a'", "") + "==''", fill("cel.bind(x,1,", "true", ")"), fill("body.x in [", "1", "]"), fill("[dyn(1),", "1", "]") + "==1", fill("[1,2].map(x,x>0,", "1", ")") + "==1",
	} {
		began := time.Now()
		_, err := expression.Condition(text)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%.30s...: %s, %v", text, took, err)
		}
	}
}
