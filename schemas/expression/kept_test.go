package expression

import (
	"errors"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
)

// TestKept: what is asked for between two calls of Forget is compiled once, also what is no expression; what is not asked for is gone.
func TestKept(t *testing.T) {
	var k kept
	bad := errors.New("bad")
	compiled := 0
	compile := func(text string) (*Expression, error) {
		if compiled++; text == "bad" {
			return nil, bad
		}
		return &Expression{reads: []string{text}}, nil
	}
	ask := func(what string, want int, texts ...string) {
		t.Helper()
		compiled = 0
		for _, text := range texts {
			if x, err := k.compiled(text, compile); text == "bad" && err != bad || text != "bad" && !x.Reads(text) {
				t.Errorf("%s: %s gives %v %v", what, text, x, err)
			}
		}
		if compiled != want {
			t.Errorf("%s: %d were compiled, want %d", what, compiled, want)
		}
	}
	ask("the first time", 3, "a", "b", "bad", "a", "bad")
	Forget()
	ask("again", 0, "a", "bad")
	Forget()
	ask("again, and one that was not asked for", 1, "a", "b", "bad")
	Forget()
	Forget()
	ask("nothing was asked for meanwhile", 3, "a", "b", "bad")
}

// TestCompileGivesEachItsOwn: of one text each caller has types and paths of its own.
func TestCompileGivesEachItsOwn(t *testing.T) {
	t.Parallel()
	env := Over(cel.Variable("body", cel.DynType))
	if _, err := env.Compile("1", []*cel.Type{cel.BoolType}); err == nil || !strings.Contains(err.Error(), "must give one of bool") {
		t.Errorf("a number where a bool is wanted: %v", err)
	}
	if x, err := env.Compile("1", []*cel.Type{cel.IntType}); err != nil || x.TypeNames() != "int" {
		t.Errorf("a number where one is wanted: %v", err)
	}
	var all []*Expression
	for _, text := range []string{"body.a", "body.a", "body.b"} {
		x, err := env.Compile(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	if all[0].program != all[1].program {
		t.Error("one text is compiled twice")
	}
	alone := all[1].paths
	if Together(all[0], all[2]); all[0].paths != all[2].paths || all[1].paths != alone || all[0].paths == alone {
		t.Error("what two share, a third has, too")
	}
}
