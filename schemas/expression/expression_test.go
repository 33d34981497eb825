package expression_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"cel.dev/cel-go/cel"
	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/schemas/scan"
)

// declared has a variable of a field's name beside one that holds anything.
var declared = expression.Over(cel.Variable("body", cel.DynType), cel.Variable("event.id", cel.StringType), cel.Variable("event.n", cel.IntType))

func activation(t testing.TB, body string) cel.Activation {
	t.Helper()
	tree, err := expression.JSON([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	a, err := cel.NewActivation(map[string]any{"body": tree, "event.id": "e-1", "event.n": int64(7)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func native(t *testing.T, text, body string, limit int) (any, error) {
	t.Helper()
	x, err := declared.Compile(text, nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	v, err := x.Eval(activation(t, body))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return expression.Native(v, limit)
}

func TestNative(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, body string
		want       any
	}{
		{"body", `{"a":[1,18446744073709551615,1.5,true,null,"x",{}],"b":123456789012345678901234567890}`, map[string]any{
			"a": []any{int64(1), uint64(18446744073709551615), 1.5, true, nil, "x", map[string]any{}}, "b": json.Number("123456789012345678901234567890")}},
		{"body.n", `{"n":1e999}`, json.Number("1e999")},
		{"event.id + '/' + string(event.n)", `null`, "e-1/7"},
		{"{'at': timestamp('2026-01-02T03:04:05.5+01:00'), 'for': duration('90s'), 'all': [event.n]}", `0`, map[string]any{
			"at": "2026-01-02T02:04:05.5Z", "for": "1m30s", "all": []any{int64(7)}}},
		{"body.map(x, {'name': x.name})", `[{"name":"a","age":1},{"name":"b"}]`, []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}}},
	} {
		got, err := native(t, tt.text, tt.body, 1000)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.text, diff)
		}
	}
}

func TestNativeRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, body, want string }{
		{"b'abc'", `0`, "gives a value of type bytes"},
		{"[type(1)]", `0`, "gives a value of type type"},
		{"{1: 2}", `0`, "a key of type int"},
		{"double('NaN')", `0`, "a number that JSON does not have"},
		{"1.0 / 0.0", `0`, "a number that JSON does not have"},
		{"body.all.map(x, body.text)", `{"all":[1,2,3,4,5,6,7,8,9,10,11],"text":"` + strings.Repeat("x", 100) + `"}`, "is too large"},
		{"body.all.map(x, body)", `{"all":[` + strings.Repeat("1,", 50) + `1]}`, "is too large"},
		{"{body: 1}", `"` + strings.Repeat("k", 2000) + `"`, "is too large"},
	} {
		got, err := native(t, tt.text, tt.body, 1000)
		if err == nil || !strings.Contains(err.Error(), tt.want) || got != nil {
			t.Errorf("%s: %v, %v, want %s", tt.text, got, err, tt.want)
		}
	}
}

func TestCompileChecksTypes(t *testing.T) {
	t.Parallel()
	texts := []*cel.Type{cel.StringType, cel.TimestampType}
	for text, want := range map[string]string{
		"event.n":    "is an expression of type int, and must give one of string, timestamp",
		"event.nope": "is not an expression: at character 6: undeclared reference to 'event.nope' (did you mean 'event.n'?)",
		"event.id +": "is not an expression: at character 11: Syntax error",
		"1.5":        "decimals are not exact",
	} {
		if _, err := declared.Compile(text, texts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	x, err := declared.Compile("body.a + event.id", texts)
	if err != nil || !x.Reads("body") || !x.Reads("event.id") || x.Reads("event.n") {
		t.Errorf("%+v, %v", x, err)
	}
}

// What is nested deeply is refused before its types are checked, which would take many seconds.
func TestCompileBoundsNesting(t *testing.T) {
	t.Parallel()
	for _, form := range [][3]string{{"[", "1", "]"}, {"{1:", "1", "}"}, {"[1].map(x,", "x", ")"}, {"body.filter(x,", "true", "||true)"}, {"(true?[", "1", "]:[])"}, {"body.map(x,true,", "true", ")"}} {
		nested := func(n int) string { return strings.Repeat(form[0], n) + form[1] + strings.Repeat(form[2], n) }
		if _, err := declared.Compile(nested(17), nil); err == nil || !strings.Contains(err.Error(), "nested more than 16 deep") {
			t.Errorf("17 of %s: %v", form[0], err)
		}
		if _, err := declared.Compile(nested(3), nil); err != nil && strings.Contains(err.Error(), "nested") {
			t.Errorf("3 of %s: %v", form[0], err)
		}
	}
	if _, err := declared.Compile("event.id"+strings.Repeat(" + event.id", 150), nil); err != nil {
		t.Error("a long sum: ", err)
	}
}

// Under the race detector: an undeclared name makes the checker write into the environment.
func TestCompileConcurrently(t *testing.T) {
	t.Parallel()
	for range 50 {
		env := expression.Over(cel.Variable("body", cel.DynType))
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if _, err := env.Compile("boody.id", nil); err == nil {
					t.Error("an undeclared name was compiled")
				}
			})
			all.Go(func() {
				if _, err := env.Compile("body.list.exists(x, x == 1)", nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

func TestFailureTellsNothingOfTheValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"event.id + body[body.secret]":                            "fails at character 16: a value is missing, of another type or out of range",
		"body.list.map(x, body.list.map(y, body.list.map(z, x)))": "takes more than 100000 steps",
	} {
		x, err := declared.Compile(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.Eval(activation(t, `{"secret":"hunter2","list":[`+strings.Repeat("1,", 99)+`1]}`))
		if f, ok := errors.AsType[*expression.Failure](err); !ok || err.Error() != want || f.Cost != strings.HasPrefix(want, "takes") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestJSONIsStrict(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]scan.Reason{
		`{"a":1,"a":2}`: scan.DuplicateKey, `"\ud800"`: scan.BadString, `{`: scan.Syntax, ``: scan.Syntax,
		"[" + strings.Repeat("0,", 1<<18) + "0]": scan.TooMany,
	} {
		if v, err := expression.JSON([]byte(text)); scan.ErrorReason(err) != want || v != nil {
			t.Errorf("%.20s: %v, %v, want %s", text, v, err, want)
		}
	}
}
