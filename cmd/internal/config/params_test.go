package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// decoded is what the decoder makes of the params of an action of the design's file, and what it says.
func decoded(t *testing.T, params string, roles ...Role) (Params, Problems) {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(params), &n); err != nil {
		t.Fatal(err)
	}
	env := osEnvironment()
	env.lookup = func(name string) (string, bool) { return "<" + name + ">", name != "NOPE" }
	o := Options{Roles: roles}
	d := &decoder{file: "f", env: env, uses: o.uses, places: map[string]place{}, unresolved: map[string]bool{}, references: map[string]referring{}, literal: map[literal]string{}}
	var a Action
	d.value(n.Content[0], "teams.acme.subscriptions.triage.actions[0].params", reflect.ValueOf(&a.Params).Elem(), field{})
	return a.Params, d.problems
}

func TestParamsKeepTheirTypes(t *testing.T) {
	t.Parallel()
	p, problems := decoded(t, `
text: "Issue {{body.n}}"
plain: yes
day: 2026-01-01
quoted: "42"
n: 42
large: 123456789012345678901234567890
ratio: 1.50
on: true
list: [a, 1, [false]]
deep: {a: {b.c: [{d: "${env:X}/${env:Y}"}]}}
`)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := map[string]any{
		"text": "Issue {{body.n}}", "plain": "yes", "day": "2026-01-01", "quoted": "42", "n": int64(42), "large": json.Number("123456789012345678901234567890"),
		"ratio": json.Number("1.50"), "on": true, "list": []any{"a", int64(1), []any{false}},
		"deep": map[string]any{"a": map[string]any{"b.c": []any{map[string]any{"d": "<X>/<Y>"}}}},
	}
	if diff := cmp.Diff(want, p.Values()); diff != "" {
		t.Error(diff)
	}
	shown, err := yaml.Marshal(p.node())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(shown), "<X>") || !strings.Contains(string(shown), "${env:X}/${env:Y}") {
		t.Errorf("shown is not what was written:\n%s", shown)
	}
	again, problems := decoded(t, string(shown))
	if diff := cmp.Diff(want, again.Values()); len(problems) > 0 || diff != "" {
		t.Errorf("what is shown reads differently: %v\n%s", problems, diff)
	}
	for key, want := range map[string]bool{"text": false, "list[0]": false, "list[2][0]": false, "list": false, "deep.a.b.c[0].d": true, "deep": false, "nope": true, "list[7]": true} {
		if got := p.references(key); got != want {
			t.Errorf("%s has references: %v", key, got)
		}
	}
}

func TestParamsRefuse(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]string{
		"text":                "expected a mapping",
		"[a]":                 "expected a mapping",
		"a: ~":                "f:1: teams.acme.subscriptions.triage.actions[0].params.a: has no value; an expression gives null: {{null}}",
		"a:\n  - x\n  - .inf": "f:3: teams.acme.subscriptions.triage.actions[0].params.a[1]: .inf is not a number",
		"a: !!binary aGk=":    "tag !!binary is not supported",
		"a: !mine x":          "tag !mine is not supported",
		"a: &x [1]":           "anchors and aliases are not supported",
		"a: {b: 1, b: 2}":     "duplicate key",
		"a: {<<: {b: 1}}":     "merge keys are not supported",
		`a: "${env:NOPE}"`:    "environment variable NOPE is not set",
	} {
		if _, problems := decoded(t, params); len(problems) == 0 || !strings.Contains(problems.Error(), want) {
			t.Errorf("%s: %v, want %s", params, problems, want)
		}
	}
}

// A process that runs no subscriptions does not need what their actions' parameters refer to.
func TestParamsAreOfTheStreamRole(t *testing.T) {
	t.Parallel()
	if _, problems := decoded(t, `a: "${env:NOPE}"`, RoleIntake); len(problems) > 0 {
		t.Error(problems)
	}
}
