package jsonschema

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
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
		"a first kind":   {`{}`, `{"properties": {"n": {"type": ["number", "null"]}}}`, "refuses /n: field /n has to be null or a number now, and could be anything: an event in which it is something else is refused", `{"n": "x"}`},
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
			"unclear /a: what $ref leads to has changed: whether an event that fitted still does has to be seen by hand", ``},
		"a pattern":      {`{"properties": {"s": {"pattern": "^a"}}}`, `{"properties": {"s": {"pattern": "^ab?"}}}`, "unclear /s: pattern has changed: whether an event that fitted still does has to be seen by hand", ``},
		"texts":          {`{"title": "a", "$id": "x:1", "$comment": "c"}`, `{"description": "b", "$id": "x:2", "examples": [1]}`, "", ``},
		"never":          {`{"properties": {"a": true}}`, `{"properties": {"a": false}}`, "refuses /a: field /a is not allowed any more: an event with it is refused", `{"a": 1}`},
		"never, allowed": {`{"properties": {"a": false}}`, `{"properties": {"a": {"type": "string"}}}`, "widens /a: field /a is allowed now: who reads it may find it", `{"a": "x"}`},
		"named, of closed patterns": {`{"additionalProperties": false, "patternProperties": {"^a": {}}}`, `{"additionalProperties": false, "patternProperties": {"^a": {}}, "properties": {"a": {"type": "string"}}}`,
			"unclear /a: field /a stands in properties of one of the two only, and other keywords look at it, too: whether an event that fitted still does has to be seen by hand", ``},
		"others have a kind": {`{"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}}`, `{"additionalProperties": {"type": "integer"}}`,
			"refuses /a: field /a may not be a string any more: an event in which it is that is refused\nwidens /a: field /a may be an integer now: who reads it must expect that", ``},
		"unevaluated, gone": {`{"unevaluatedProperties": false, "properties": {"a": {}, "b": {}}}`, `{"unevaluatedProperties": false, "properties": {"a": {}}}`, "refuses /b: field /b is not allowed any more: an event with it is refused", `{"b": 1}`},
		"unevaluated beside allOf": {`{"unevaluatedProperties": false, "allOf": [{"properties": {"a": {}}}], "properties": {"b": {}}}`, `{"unevaluatedProperties": false, "allOf": [{"properties": {"a": {}}}]}`,
			"unclear /b: field /b stands in properties of one of the two only, and other keywords look at it, too: whether an event that fitted still does has to be seen by hand", ``},
		"evaluated by what asks nothing": {`{"unevaluatedProperties": false, "allOf": [{"additionalProperties": true}, {}]}`, `{"unevaluatedProperties": false, "allOf": [{}, {}]}`,
			"unclear : allOf has changed: whether an event that fitted still does has to be seen by hand", ``},
		"an enum beside const":  {`{"const": "a", "enum": ["a", "b"]}`, `{"const": "a", "enum": ["b"]}`, "refuses : the event is not allowed any more: an event with it is refused", `"a"`},
		"a const beside enum":   {`{"enum": ["a", 1]}`, `{"enum": ["a", 1.0], "const": 1}`, "refuses : the event may not be a any more: an event with that value is refused", `"a"`},
		"large integers":        {`{"minimum": 9007199254740992}`, `{"minimum": 9007199254740993}`, "refuses : the event: minimum is 9007199254740993 now, and was 9007199254740992: an event that is beyond it is refused", `9007199254740992`},
		"no lower bound at all": {`{}`, `{"minLength": 0, "minItems": 0, "minProperties": 0, "items": {"minLength": 0}}`, "", ``},
		"all others":            {`{"allOf": [{"additionalProperties": {}}, {}]}`, `{"additionalProperties": true, "allOf": [{}, {"additionalProperties": true}]}`, "", ``},
		"another anchor": {`{"$ref": "#x", "$defs": {"x": {"$anchor": "x"}, "y": {"$anchor": "y", "type": "null"}}}`, `{"$ref": "#y", "$defs": {"x": {"$anchor": "x"}, "y": {"$anchor": "y", "type": "null"}}}`,
			"refuses : the event has to be null now, and could be anything: an event in which it is something else is refused", `1`},
		"unknown keywords": {`{"x-owner": "a"}`, `{"x-owner": "b", "$defs": {"a": {"type": "string"}}}`, "", ``},
		"references without need": {`{"oneOf": [{"$ref": "#x"}, {"$ref": "#/$defs/b%25"}], "$defs": {"a": {"$anchor": "x", "type": "string"}, "b%": {"type": "null"}}}`,
			`{"oneOf": [{"allOf": [{"type": "string"}]}, {"$ref": "urn:b"}], "$defs": {"b": {"$id": "urn:b", "type": "null"}}}`, "", ``},
	} {
		before, after := schemaOf(t, tt.before), schemaOf(t, tt.after)
		var lines []string
		changes := Compare(before, after)
		for _, c := range changes {
			lines = append(lines, string(c.Effect)+" "+c.Place+": "+c.Words)
		}
		if diff := cmp.Diff(tt.want, strings.Join(lines, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if tt.event == "" || len(changes) == 0 {
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

// What a $ref leads to is compared wherever it stands. The event fits before, and not after.
func TestCompareReferences(t *testing.T) {
	t.Parallel()
	const x = `, "$defs": {"x": {"type": "string"}}}`
	for before, event := range map[string]string{
		`{"oneOf": [{"$ref": "#/$defs/x"}, false]` + x:                                                              `"a"`,
		`{"anyOf": [{"$ref": "#/$defs/x"}, false]` + x:                                                              `"a"`,
		`{"allOf": [{"$ref": "#/$defs/x"}, true]` + x:                                                               `"a"`,
		`{"$ref": "#/$defs/x", "minLength": 1` + x:                                                                  `"a"`,
		`{"prefixItems": [{"$ref": "#/$defs/x"}]` + x:                                                               `["a"]`,
		`{"contains": {"$ref": "#/$defs/x"}` + x:                                                                    `["a"]`,
		`{"items": {"$ref": "#/$defs/x"}` + x:                                                                       `["a"]`,
		`{"unevaluatedItems": {"$ref": "#/$defs/x"}, "allOf": [true, true]` + x:                                     `["a"]`,
		`{"additionalProperties": {"$ref": "#/$defs/x"}` + x:                                                        `{"a": "a"}`,
		`{"patternProperties": {"^a": {"$ref": "#/$defs/x"}}` + x:                                                   `{"a": "a"}`,
		`{"unevaluatedProperties": {"$ref": "#/$defs/x"}, "allOf": [true, true]` + x:                                `{"a": "a"}`,
		`{"dependentSchemas": {"a": {"properties": {"b": {"$ref": "#/$defs/x"}}}}` + x:                              `{"a": 1, "b": "a"}`,
		`{"dependencies": {"a": {"properties": {"b": {"$ref": "#/$defs/x"}}}}` + x:                                  `{"a": 1, "b": "a"}`,
		`{"propertyNames": {"$ref": "#/$defs/x"}` + x:                                                               `{"a": 1}`,
		`{"if": true, "then": {"$ref": "#/$defs/x"}` + x:                                                            `"a"`,
		`{"not": {"not": {"$ref": "#/$defs/x"}}` + x:                                                                `"a"`,
		`{"oneOf": [false, {"$ref": "#s"}], "$defs": {"x": {"$anchor": "s", "type": "string"}}}`:                    `"a"`,
		`{"oneOf": [false, {"$ref": "urn:x"}], "$defs": {"x": {"$id": "urn:x", "type": "string"}}}`:                 `"a"`,
		`{"oneOf": [false, {"$ref": "#/$defs/y"}], "$defs": {"x": {"type": "string"}, "y": {"$ref": "#/$defs/x"}}}`: `"a"`,
	} {
		was, is := schemaOf(t, before), schemaOf(t, strings.Replace(before, `"type": "string"`, `"type": "integer"`, 1))
		if verdict(was, []byte(event)) != Fits || verdict(is, []byte(event)) != Misfit {
			t.Errorf("%s: %s does not tell them apart", before, event)
		}
		if !slices.ContainsFunc(Compare(was, is), func(c Change) bool { return c.Effect != Widens }) {
			t.Errorf("%s: compatible, and %s is refused", before, event)
		}
		if changes := Compare(was, was); len(changes) > 0 {
			t.Errorf("%s differs from itself: %v", before, changes)
		}
	}
}

// A keyword that a later version of the validator checks must not be overlooked.
func TestMeaningHasAllKeywords(t *testing.T) {
	t.Parallel()
	known := strings.Fields(`DraftVersion Location ID Anchor Title Description Default Comment ReadOnly WriteOnly Examples Deprecated
		RecursiveRef RecursiveAnchor DynamicRef DynamicAnchor Items AdditionalItems Format ContentEncoding ContentMediaType ContentSchema Extensions
		Bool Ref Types Enum Const Not AllOf AnyOf OneOf If Then Else MaxProperties MinProperties Required PropertyNames Properties PatternProperties
		AdditionalProperties Dependencies DependentRequired DependentSchemas UnevaluatedProperties MinItems MaxItems UniqueItems Contains MinContains
		MaxContains PrefixItems Items2020 UnevaluatedItems MinLength MaxLength Pattern Maximum Minimum ExclusiveMaximum ExclusiveMinimum MultipleOf`)
	for f := range reflect.TypeFor[validator.Schema]().Fields() {
		if f.IsExported() && !slices.Contains(known, f.Name) {
			t.Errorf("the validator has %s: read it in meaning.go and cost.go if a check looks at it, and add it here", f.Name)
		}
	}
}

func schemaOf(t *testing.T, text string) *Schema {
	t.Helper()
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(text, err)
	}
	return s
}
