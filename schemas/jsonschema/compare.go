package jsonschema

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Effect is what a change of a schema does to whom.
type Effect string

const (
	Refuses Effect = "refuses" // an event that fitted may not fit any more: its sender is concerned
	Widens  Effect = "widens"  // an event that did not fit may fit now: whoever reads it is concerned
	Unclear Effect = "unclear" // it cannot be said
)

// Change is one difference between two schemas, in words.
type Change struct {
	Place  string `json:"place"` // JSON Pointer into the event; elements of arrays are *
	Effect Effect `json:"effect"`
	Words  string `json:"change"`
}

// Compare says what a schema refuses, and what it takes, that another did not before. Texts for people ($comment, title, description) are no
// difference, neither is whether something stands in its place or behind a $ref.
func Compare(before, after *Schema) []Change {
	c := comparison{before: before.tree, after: after.tree}
	c.schemas("", before.tree, after.tree)
	slices.SortStableFunc(c.changes, func(a, b Change) int { return strings.Compare(a.Place, b.Place) })
	return c.changes
}

type comparison struct {
	before, after map[string]any // whole, for $ref
	changes       []Change
}

func (c *comparison) add(place string, e Effect, format string, args ...any) {
	c.changes = append(c.changes, Change{Place: place, Effect: e, Words: fmt.Sprintf(format, args...)})
}

// schemas compares what is asked of one place. Parse has refused circles.
func (c *comparison) schemas(place string, before, after any) {
	b, a := resolve(before, c.before), resolve(after, c.after)
	c.types(place, b, a)
	c.required(place, b, a)
	c.properties(place, b, a)
	c.values(place, b, a)
	c.bounds(place, b, a)
	if b["items"] != nil || a["items"] != nil {
		c.schemas(place+"/*", b["items"], a["items"])
	}
	for _, key := range slices.Sorted(maps.Keys(union(b, a))) {
		if !compared[key] && !reflect.DeepEqual(b[key], a[key]) {
			c.add(place, Unclear, "%s has changed: whether an event that fitted still does has to be seen by hand", key)
		}
	}
}

// compared are the keywords that are compared by their meaning, and those that ask nothing of an event.
var compared = func() map[string]bool {
	all := map[string]bool{}
	for key := range strings.FieldsSeq("type required properties additionalProperties items enum const " +
		"$schema $id $ref $defs $comment $anchor title description default examples deprecated readOnly writeOnly format " + typesKey) {
		all[key] = true
	}
	for _, b := range bounds {
		all[b.key] = true
	}
	return all
}()

// resolve returns a schema as an object, with what a $ref into the same text leads to in its place. A schema with keywords beside its $ref is
// returned as it is: their $ref is then what is compared.
func resolve(schema any, root map[string]any) map[string]any {
	for {
		switch s := schema.(type) {
		case map[string]any:
			ref, _ := s["$ref"].(string)
			target, ok := lookup(ref, root)
			if !ok || len(s) > 1 && !slices.Equal(slices.Sorted(maps.Keys(s)), []string{"$comment", "$ref"}) {
				if ref != "" {
					s = maps.Clone(s)
					s["allOf $ref"] = []any{target, s["allOf"]}
				}
				return s
			}
			schema = target
		case bool:
			if !s {
				return map[string]any{"not": map[string]any{}}
			}
			return map[string]any{}
		default:
			return map[string]any{}
		}
	}
}

// lookup returns what a $ref such as #/$defs/line leads to.
func lookup(ref string, root map[string]any) (any, bool) {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, false
	}
	var at any = root
	for token := range strings.SplitSeq(path, "/") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		at = object[strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")]
	}
	return at, at != nil
}

func union(a, b map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// named names a place in a sentence.
func named(place string) string {
	if place == "" {
		return "the event"
	}
	return "field " + shown(place)
}

var everyKind = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// kinds returns what type says; a number may be an integer.
func kinds(schema map[string]any) []string {
	var all []string
	switch t := schema["type"].(type) {
	case string:
		all = []string{t}
	case []any:
		for _, k := range t {
			all = append(all, fmt.Sprint(k))
		}
	default:
		return everyKind
	}
	if slices.Contains(all, "number") && !slices.Contains(all, "integer") {
		all = append(all, "integer")
	}
	return all
}

func (c *comparison) types(place string, b, a map[string]any) {
	before, after := kinds(b), kinds(a)
	without := func(all, some []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(k string) bool {
			return slices.Contains(some, k) || k == "integer" && slices.Contains(all, "number") && !slices.Contains(some, "number")
		})
	}
	gone, more := without(before, after), without(after, before)
	switch {
	case len(gone) > 0 && len(before) == len(everyKind):
		c.add(place, Refuses, "%s has to be %s now, and could be anything: an event in which it is something else is refused", named(place), alternatives(written(a)))
	case len(gone) > 0:
		c.add(place, Refuses, "%s may not be %s any more: an event in which it is that is refused", named(place), alternatives(gone))
	}
	switch {
	case len(more) > 0 && len(after) == len(everyKind):
		c.add(place, Widens, "%s may be anything now: who reads it must expect that", named(place))
	case len(more) > 0:
		c.add(place, Widens, "%s may be %s now: who reads it must expect that", named(place), alternatives(more))
	}
}

// written returns the kinds as they stand in a schema.
func written(schema map[string]any) []string {
	all := kinds(schema)
	if slices.Contains(all, "number") {
		all = slices.DeleteFunc(slices.Clone(all), func(k string) bool { return k == "integer" })
	}
	return all
}

func texts(list any) (all []string) {
	values, _ := list.([]any)
	for _, v := range values {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func (c *comparison) required(place string, b, a map[string]any) {
	before, after := texts(b["required"]), texts(a["required"])
	for _, name := range after {
		if !slices.Contains(before, name) {
			c.add(field(place, name), Refuses, "%s became required: an event without it is refused", named(field(place, name)))
		}
	}
	for _, name := range before {
		if !slices.Contains(after, name) {
			c.add(field(place, name), Widens, "%s is not required any more: who reads it must do without", named(field(place, name)))
		}
	}
}

func field(place, name string) string { return place + "/" + escaper.Replace(name) }

func (c *comparison) properties(place string, b, a map[string]any) {
	before, _ := b["properties"].(map[string]any)
	after, _ := a["properties"].(map[string]any)
	closedBefore, closedAfter := b["additionalProperties"] == false, a["additionalProperties"] == false
	for _, name := range slices.Sorted(maps.Keys(union(before, after))) {
		at := field(place, name)
		_, was := before[name]
		_, is := after[name]
		switch {
		case was && !is && closedAfter:
			c.add(at, Refuses, "%s is not allowed any more: an event with it is refused", named(at))
		case is && !was && closedBefore:
			c.add(at, Widens, "%s is allowed now: who reads it may find it", named(at))
		default:
			c.schemas(at, before[name], after[name])
		}
	}
	switch {
	case closedAfter && !closedBefore:
		c.add(place, Refuses, "%s may have no fields any more but those that are named: an event with another one is refused", named(place))
	case closedBefore && !closedAfter:
		c.add(place, Widens, "%s may have other fields than those that are named now", named(place))
	case !closedBefore && !reflect.DeepEqual(b["additionalProperties"], a["additionalProperties"]):
		c.add(place, Unclear, "additionalProperties has changed: whether an event that fitted still does has to be seen by hand")
	}
}

// values compares enum and const.
func (c *comparison) values(place string, b, a map[string]any) {
	allowed := func(s map[string]any) ([]any, bool) {
		if v, ok := s["const"]; ok {
			return []any{v}, true
		}
		values, ok := s["enum"].([]any)
		return values, ok
	}
	before, was := allowed(b)
	after, is := allowed(a)
	missing := func(all, in []any) (gone []string) {
		for _, v := range all {
			if !slices.ContainsFunc(in, func(w any) bool { return reflect.DeepEqual(v, w) }) {
				gone = append(gone, fmt.Sprint(v))
			}
		}
		return gone
	}
	switch gone, more := missing(before, after), missing(after, before); {
	case is && !was:
		c.add(place, Refuses, "%s may only be one of %s now: an event with another value is refused", named(place), list(more))
	case was && !is:
		c.add(place, Widens, "%s may have any value now, and had to be one of %s: who reads it must expect that", named(place), list(gone))
	default:
		if len(gone) > 0 {
			c.add(place, Refuses, "%s may not be %s any more: an event with that value is refused", named(place), list(gone))
		}
		if len(more) > 0 {
			c.add(place, Widens, "%s may be %s now: who reads it must expect that", named(place), list(more))
		}
	}
}

// bounds are the keywords with a number; of those with up a larger one asks for more.
var bounds = []struct {
	key string
	up  bool
}{
	{"minimum", true}, {"exclusiveMinimum", true}, {"minLength", true}, {"minItems", true}, {"minProperties", true},
	{"maximum", false}, {"exclusiveMaximum", false}, {"maxLength", false}, {"maxItems", false}, {"maxProperties", false},
}

func (c *comparison) bounds(place string, b, a map[string]any) {
	for _, bound := range bounds {
		none := math.Inf(1)
		if bound.up {
			none = math.Inf(-1)
		}
		before, after := size(b[bound.key], none), size(a[bound.key], none)
		switch {
		case before == after:
		case bound.up == (after > before):
			c.add(place, Refuses, "%s: %s is %s now, and was %s: an event that is beyond it is refused", named(place), bound.key, amount(after), amount(before))
		default:
			c.add(place, Widens, "%s: %s is %s now, and was %s: who reads it must expect that", named(place), bound.key, amount(after), amount(before))
		}
	}
}

func size(v any, none float64) float64 {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return none
}

func amount(n float64) string {
	if math.IsInf(n, 0) {
		return "none"
	}
	return fmt.Sprint(n)
}
