package schemas_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
)

// TestParseChain: a list that is longer than the depth counts, and what is no chain is refused without a quotation.
func TestParseChain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, agents, depth, trace string
		want                       schemas.Chain
		reason                     string
	}{
		{name: "nothing"},
		{name: "a chain", agents: "planner, coder", depth: "2", trace: "t-1", want: schemas.Chain{Agents: []string{"planner", "coder"}, Depth: 2, TraceID: "t-1"}},
		{name: "two headers joined", agents: "a,b,, c ", want: schemas.Chain{Agents: []string{"a", "b", "c"}, Depth: 3}},
		{name: "a depth that lies low", agents: "a,b,c", depth: "1", want: schemas.Chain{Agents: []string{"a", "b", "c"}, Depth: 3}},
		{name: "a depth alone", depth: " 5 ", want: schemas.Chain{Depth: 5}},
		{name: "a huge depth", depth: "2147483647", want: schemas.Chain{Depth: 1 << 20}},
		{name: "a negative depth", depth: "-1", reason: "wrong_type"},
		{name: "no number", depth: "secret", reason: "wrong_type"},
		{name: "too large a depth", depth: "99999999999", reason: "wrong_type"},
		{name: "a space in a name", agents: "a b", reason: "control_character"},
		{name: "a long name", agents: strings.Repeat("x", 129), reason: "too_long"},
		{name: "many names", agents: strings.Repeat("x,", 65), reason: "too_long"},
		{name: "a long list", agents: strings.Repeat(",", 10_000), reason: "too_long"},
		{name: "a long trace id", trace: strings.Repeat("x", 129), reason: "too_long"},
		{name: "a line in a trace id", trace: "a\nb", reason: "control_character"},
	} {
		got, err := schemas.ParseChain(c.agents, c.depth, c.trace)
		if c.reason != "" {
			flaw, ok := errors.AsType[*schemas.FieldError](err)
			if !ok || flaw.Reason != c.reason || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v, want %s", c.name, err, c.reason)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", c.name, err, diff)
		}
	}
}

// TestThen: a call adds one name and one to the depth, and leaves what it came from as it was.
func TestThen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := schemas.Chain{Agents: rapid.SliceOfN(rapid.StringMatching("[a-z]{1,8}"), 0, 8).Draw(t, "agents")}
		c.Depth = len(c.Agents) + rapid.IntRange(0, 3).Draw(t, "deeper")
		before := c.AgentsText()
		first, second := c.Then("acme.triage"), c.Then("acme.other")
		if c.AgentsText() != before || first.Depth != c.Depth+1 || first.Agents[len(first.Agents)-1] != "acme.triage" || second.Agents[len(second.Agents)-1] != "acme.other" {
			t.Fatalf("%+v then %+v and %+v", c, first, second)
		}
		if read, err := schemas.ParseChain(first.AgentsText(), "0", ""); err != nil || read.Depth != len(first.Agents) {
			t.Fatalf("%+v is read as %+v: %v", first, read, err)
		}
	})
}
