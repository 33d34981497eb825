package jsonschema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each change is said once, with whom it concerns. Where it is said that an event is refused, the event in the row is: the old schema takes it
// and the new one does not; where it says that readers must expect one, the other way round.
func TestCompare(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, after string
		want          string
		event         string // that one takes and the other does not
	}{
		"required":       {`{}`, `{"required": ["id"]}`, "refuses /id: field /id became required: an event without it is refused", `{}`},
		"not required":   {`{"required": ["id"]}`, `{}`, "widens /id: field /id is not required any more: who reads it must do without", `{}`},
		"deeper":         {`{"properties": {"a": {"required": []}}}`, `{"properties": {"a": {"required": ["b/c"]}}}`, "refuses /a/b~1c: field /a/b~1c became required: an event without it is refused", `{"a": {}}`},
		"kind":           {`{"properties": {"id": {"type": ["string", "null"]}}}`, `{"properties": {"id": {"type": "string"}}}`, "refuses /id: field /id may not be null any more: an event in which it is that is refused", `{"id": null}`},
		"more kinds":     {`{"properties": {"id": {"type": "string"}}}`, `{"properties": {"id": {"type": ["string", "integer"]}}}`, "widens /id: field /id may be an integer now: who reads it must expect that", `{"id": 1}`},
		"number":         {`{"properties": {"n": {"type": "number"}}}`, `{"properties": {"n": {"type": "integer"}}}`, "refuses /n: field /n may not be a number any more: an event in which it is that is refused", `{"n": 1.5}`},
		"integer":        {`{"properties": {"n": {"type": "integer"}}}`, `{"properties": {"n": {"type": "number"}}}`, "widens /n: field /n may be a number now: who reads it must expect that", `{"n": 1.5}`},
		"a first kind":   {`{}`, `{"properties": {"n": {"type": ["number", "null"]}}}`, "refuses /n: field /n has to be a number or null now, and could be anything: an event in which it is something else is refused", `{"n": "x"}`},
		"any kind":       {`{"properties": {"n": {"type": "number"}}}`, `{}`, "widens /n: field /n may be anything now: who reads it must expect that", `{"n": "x"}`},
		"the event":      {`{}`, `{"type": "object"}`, "refuses : the event has to be an object now, and could be anything: an event in which it is something else is refused", `[]`},
		"enum":           {`{"properties": {"s": {"enum": ["a", "b"]}}}`, `{"properties": {"s": {"enum": ["b", "c"]}}}`, "refuses /s: field /s may not be a any more: an event with that value is refused\nwidens /s: field /s may be c now: who reads it must expect that", ``},
		"a first enum":   {`{}`, `{"properties": {"s": {"const": "a"}}}`, "refuses /s: field /s may only be one of a now: an event with another value is refused", `{"s": "b"}`},
		"no enum":        {`{"properties": {"s": {"enum": ["a"]}}}`, `{"properties": {"s": true}}`, "widens /s: field /s may have any value now, and had to be one of a: who reads it must expect that", `{"s": "b"}`},
		"const to enum":  {`{"properties": {"s": {"const": "a"}}}`, `{"properties": {"s": {"enum": ["a"]}}}`, "", ``},
		"closed":         {`{"properties": {"a": {}}}`, `{"additionalProperties": false, "properties": {"a": {}}}`, "refuses : the event may have no fields any more but those that are named: an event with another one is refused", `{"b": 1}`},
		"opened":         {`{"additionalProperties": false}`, `{}`, "widens : the event may have other fields than those that are named now", `{"b": 1}`},
		"closed, gone":   {`{"additionalProperties": false, "properties": {"a": {}, "b": {}}}`, `{"additionalProperties": false, "properties": {"a": {}}}`, "refuses /b: field /b is not allowed any more: an event with it is refused", `{"b": 1}`},
		"closed, new":    {`{"additionalProperties": false}`, `{"additionalProperties": false, "properties": {"a": {"type": "string"}}}`, "widens /a: field /a is allowed now: who reads it may find it", `{"a": "x"}`},
		"open, new":      {`{}`, `{"properties": {"a": {}}}`, "", ``},
		"elements":       {`{"properties": {"l": {"items": {"type": "string"}}}}`, `{"properties": {"l": {"items": {"type": "string", "maxLength": 2}}}}`, "refuses /l/*: field /l/*: maxLength is 2 now, and was none: an event that is beyond it is refused", `{"l": ["abc"]}`},
		"lower bound":    {`{"properties": {"n": {"minimum": 5}}}`, `{"properties": {"n": {"minimum": 1.5}}}`, "widens /n: field /n: minimum is 1.5 now, and was 5: who reads it must expect that", `{"n": 2}`},
		"by reference":   {`{"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}`, `{"properties": {"a": {"type": "string", "description": "said"}}}`, "", ``},
		"in a reference": {`{"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}`, `{"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "integer"}}}`, "refuses /a: field /a may not be a string any more: an event in which it is that is refused\nwidens /a: field /a may be an integer now: who reads it must expect that", ``},
		"beside a reference": {`{"properties": {"a": {"$ref": "#/$defs/x", "minLength": 1}}, "$defs": {"x": {"type": "string"}}}`, `{"properties": {"a": {"$ref": "#/$defs/x", "minLength": 1}}, "$defs": {"x": {"type": "integer"}}}`,
			"unclear /a: allOf $ref has changed: whether an event that fitted still does has to be seen by hand", ``},
		"a pattern": {`{"properties": {"s": {"pattern": "^a"}}}`, `{"properties": {"s": {"pattern": "^ab?"}}}`, "unclear /s: pattern has changed: whether an event that fitted still does has to be seen by hand", ``},
		"texts":     {`{"title": "a", "$id": "x:1", "$comment": "c"}`, `{"description": "b", "$id": "x:2", "examples": [1]}`, "", ``},
		"never":     {`{"properties": {"a": true}}`, `{"properties": {"a": false}}`, "unclear /a: not has changed: whether an event that fitted still does has to be seen by hand", ``},
	} {
		before, err := Parse([]byte(tt.before))
		if err != nil {
			t.Fatal(name, err)
		}
		after, err := Parse([]byte(tt.after))
		if err != nil {
			t.Fatal(name, err)
		}
		var lines []string
		changes := Compare(before, after)
		for _, c := range changes {
			lines = append(lines, string(c.Effect)+" "+c.Place+": "+c.Words)
		}
		if diff := cmp.Diff(tt.want, strings.Join(lines, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if tt.event == "" {
			continue
		}
		was, _ := before.Check([]byte(tt.event))
		is, _ := after.Check([]byte(tt.event))
		if (changes[0].Effect == Refuses) != (was == Fits && is == Misfit) || (changes[0].Effect == Widens) != (was == Misfit && is == Fits) {
			t.Errorf("%s: %s was %s and is %s", name, tt.event, was, is)
		}
	}
	for _, s := range All() {
		if changes := Compare(s, s); len(changes) > 0 {
			t.Errorf("%s differs from itself: %v", s.ID, changes)
		}
	}
}
