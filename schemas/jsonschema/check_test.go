package jsonschema

import (
	"fmt"
	"strings"
	"testing"
)

const order = `{
  "$id": "https://example.com/order.json",
  "type": "object",
  "required": ["id", "lines"],
  "properties": {
    "id": {"type": ["string", "integer"]},
    "state": {"enum": ["open", "paid"]},
    "email": {"type": "string", "pattern": "^[^@]+@[^@]+$"},
    "lines": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/line"}},
    "pay": {"oneOf": [{"required": ["card"]}, {"required": ["iban"]}]}
  },
  "$defs": {"line": {"type": "object", "required": ["sku"], "additionalProperties": false, "properties": {"sku": {"type": "string"}, "n": {"type": "integer", "maximum": 99}}}}
}`

// What a misfit is told has the place and what is asked for there, and no value of the body.
func TestCheck(t *testing.T) {
	t.Parallel()
	s, err := Parse([]byte(order))
	if err != nil {
		t.Fatal(err)
	}
	if s.ID != "https://example.com/order.json" {
		t.Errorf("$id %q", s.ID)
	}
	for body, want := range map[string]string{
		`{"id": 7, "lines": [{"sku": "a"}]}`:                                 "",
		`{"id": 7.0, "lines": [{"sku": "a", "n": 99}], "more": {"x": null}}`: "",
		`{"id": "secret"}`:                                                  "lacks lines",
		`{"lines": [{"sku": "a"}], "id": 7.5}`:                              "/id is a number, not an integer or a string",
		`{"id": 1, "lines": {}}`:                                            "/lines is an object, not an array",
		`{"id": 1, "lines": []}`:                                            "/lines does not fit minItems",
		`{"id": 1, "lines": [{"sku": "a"}, {"sku": null}]}`:                 "/lines/1/sku is null, not a string",
		`{"id": 1, "lines": [{"sku": "a", "n": 100}]}`:                      "/lines/0/n does not fit maximum",
		`{"id": 1, "lines": [{"sku": "a", "n": 1e999}]}`:                    "/lines/0/n does not fit maximum",
		`{"id": 1, "lines": [{"sku": "a", "colour": "red"}]}`:               "/lines/0 has fields that the schema does not allow: colour",
		`{"id": 1, "lines": [{"sku": "a"}], "state": "secret"}`:             "/state is none of the values in enum",
		`{"id": 1, "lines": [{"sku": "a"}], "email": "secret"}`:             "/email does not fit pattern",
		`{"id": 1, "lines": [{"sku": "a"}], "pay": {"card": 1, "iban": 1}}`: "/pay fits more than one of the alternatives (oneOf)",
		`{"id": 1, "lines": [{"sku": "a"}], "pay": {}}`:                     "/pay fits none of the alternatives (oneOf)",
		`{"id": null, "lines": [{"sku": 5}]}`:                               "/id is null, not an integer or a string; and 1 more",
		`[]`:                                                                "is an array, not an object",
		`{"id": 1, "id": 2, "lines": [{"sku": "a"}]}`:                       "is no JSON: duplicate_key at byte 10",
		`<order/>`: "is no JSON: syntax at byte 0",
		``:         "is no JSON: syntax at byte 0",
		"{\"id\": 1, \"lines\": [{\"sku\": \"a\", \"\\u001b[2J" + strings.Repeat("x", 300): "is no JSON",
	} {
		verdict, why := s.Check([]byte(body))
		if wanted := map[bool]Verdict{true: Fits, false: Misfit}[want == ""]; verdict != wanted || !strings.HasPrefix(why, want) || want == "" && why != "" {
			t.Errorf("%s: %s %q, want %q", body, verdict, why, want)
		}
		if strings.Contains(why, "secret") {
			t.Errorf("%s: %q has a value of the body", body, why)
		}
	}
	_, why := s.Check([]byte(`{"id": 1, "lines": [{"sku": "a", "\u001b[2J` + strings.Repeat("x", 5000) + `": 1}]}`))
	if strings.ContainsRune(why, 0x1b) || len(why) > 400 {
		t.Errorf("%d bytes with a stranger's control characters: %q", len(why), why)
	}
}

// What is no schema, or none that is cheap to check, is refused with the place, and what to do.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	doubled := `{"$defs": {"d0": {"type": "string"}`
	for i := range 40 {
		doubled += fmt.Sprintf(`, "d%d": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/d%d"}}}, {"properties": {"a": {"$ref": "#/$defs/d%d"}}}]}`, i+1, i, i)
	}
	doubled += `}, "$ref": "#/$defs/d40"}`
	for name, tt := range map[string]struct{ text, want string }{
		"no JSON":            {`type: object`, "is no JSON: syntax at byte"},
		"not an object":      {`["id"]`, `is no schema: a schema is a JSON object, such as {"type": "object"`},
		"another draft":      {`{"$schema": "http://json-schema.org/draft-07/schema#"}`, "at /$schema: only https://json-schema.org/draft/2020-12/schema is understood"},
		"an inner draft":     {`{"properties": {"a": {"$id": "x:y", "$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}}}`, "leave $schema out of inner schemas"},
		"unknown type":       {`{"properties": {"id": {"type": "text"}}}`, "is no JSON Schema of 2020-12: /properties/id/type is none of array, boolean, integer, null, number, object, string"},
		"required no list":   {`{"required": "id"}`, "/required is a string, not an array"},
		"remote":             {`{"$ref": "https://example.com/order.json"}`, "$ref: https://example.com/order.json is elsewhere, and nothing is fetched: copy it into $defs"},
		"a file":             {`{"properties": {"x": {"$ref": "file:///etc/passwd"}}}`, "file:///etc/passwd is elsewhere, and nothing is fetched"},
		"a file beside":      {`{"$ref": "other.json#/x"}`, "other.json is elsewhere, and nothing is fetched"},
		"remote dialect":     {`{"properties": {"a": {"$id": "x:y", "$schema": "https://example.com/dialect"}}}`, "https://example.com/dialect is elsewhere"},
		"nothing there":      {`{"$ref": "#/$defs/line"}`, "$ref: nothing is at #/$defs/line"},
		"no anchor":          {`{"$ref": "#line"}`, "$ref: there is no anchor #line"},
		"circle":             {`{"properties": {"child": {"$ref": "#"}}}`, "leads back to itself by $ref"},
		"circle in lists":    {`{"$defs": {"n": {"properties": {"c": {"items": {"$ref": "#/$defs/n"}}}}}, "$ref": "#/$defs/n"}`, "leads back to itself by $ref"},
		"circle of old":      {`{"dependencies": {"a": {"properties": {"a": {"$ref": "#"}}}}}`, "leads back to itself by $ref"},
		"the metaschema":     {`{"$ref": "https://json-schema.org/draft/2020-12/schema"}`, "$dynamicRef"},
		"dynamic":            {`{"$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x"}}}`, "$dynamicRef"},
		"doubling":           {doubled, "alternatives inside of alternatives multiply"},
		"look-ahead":         {`{"properties": {"a": {"pattern": "^(?=x)"}}}`, "without look-around and back references"},
		"large pattern":      {`{"properties": {"a": {"pattern": "(a{900}b?){900}"}}}`, "/properties/a/pattern is no regex: "},
		"many instructions":  {`{"properties": {"a": {"pattern": "[a-z]{900}.[a-z]{900}"}}}`, "shorten its repetitions"},
		"large":              {`{"description": "` + strings.Repeat("x", maxText) + `"}`, "a schema has at most 131072"},
		"deep":               {strings.Repeat(`{"not":`, 200) + `{}` + strings.Repeat(`}`, 200), "is no JSON: too_deep"},
		"duplicate keywords": {`{"type": "object", "type": "array"}`, "is no JSON: duplicate_key"},
	} {
		if _, err := Parse([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "schema.invalid") {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	for name, text := range map[string]string{
		"empty":             `{}`,
		"own id, relative":  `{"$id": "order.json", "$ref": "#/$defs/a", "$defs": {"a": true}}`,
		"by its own id":     `{"$id": "https://example.com/o", "$ref": "https://example.com/o#/$defs/a", "$defs": {"a": {"type": "object"}}}`,
		"an inner resource": `{"$ref": "urn:a", "$defs": {"a": {"$id": "urn:a", "type": "object"}}}`,
	} {
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A check that might take too long is not made, and says so: by size, by values and by patterns.
func TestBudget(t *testing.T) {
	t.Parallel()
	parse := func(text string) *Schema {
		s, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	alternatives := strings.TrimSuffix(strings.Repeat(`{"type": "string"},`, 2000), ",")
	each := parse(`{"items": {"anyOf": [` + alternatives + `]}}`)
	zeros := "[" + strings.TrimSuffix(strings.Repeat("0,", 10_000), ",") + "]"
	if v, why := each.Check([]byte(zeros)); v != Unchecked || !strings.Contains(why, "more values") {
		t.Errorf("2000 alternatives for 10,000 elements: %s %s", v, why)
	}
	if v, why := each.Check([]byte(`[0, 1]`)); v != Misfit || !strings.Contains(why, "and 1 more") {
		t.Errorf("2000 alternatives for 2 elements: %s %s", v, why)
	}
	slow := parse(`{"properties": {"a": {"pattern": "([a-z]{1,40}x){1,9}$"}}}`)
	if v, why := slow.Check([]byte(`{"a": "` + strings.Repeat("a", 1<<20-10) + `"}`)); v != Unchecked || !strings.Contains(why, "patterns") {
		t.Errorf("a large pattern on a megabyte: %s %s", v, why)
	}
	if v, why := slow.Check([]byte(`{"a": "aaax"}`)); v != Fits {
		t.Errorf("the same on four bytes: %s %s", v, why)
	}
	if v, why := parse(`{}`).Check([]byte(`"` + strings.Repeat("a", MaxBody) + `"`)); v != Unchecked || !strings.Contains(why, "1048578 bytes") {
		t.Errorf("a body over a megabyte: %s %s", v, why)
	}
	if v, _ := parse(`{"uniqueItems": true}`).Check([]byte(zeros)); v != Misfit {
		t.Errorf("equal elements: %s", v)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(order), []byte(`{"id": 1, "lines": [{"sku": "a"}]}`))
	f.Add([]byte(`{"$ref": "#/$defs/a", "$defs": {"a": {"not": {}}}}`), []byte(`[]`))
	f.Add([]byte(`{"unevaluatedProperties": false, "patternProperties": {"^a": {"multipleOf": 0.1}}}`), []byte(`{"a": 1e400, "b": -0}`))
	f.Fuzz(func(t *testing.T, schema, body []byte) {
		s, err := Parse(schema)
		if err != nil {
			return
		}
		if v, why := s.Check(body); (v == Fits) != (why == "") || strings.Contains(why, "the check itself failed") {
			t.Errorf("%s %q", v, why)
		}
	})
}
