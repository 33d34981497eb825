package jsonschema

import (
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"regexp"
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

// Compare says what a schema refuses, and what it takes, that another did not before. Where no change refuses or is unclear, every event that
// fitted before fits after, and where none widens or is unclear, the reverse holds. What asks nothing of an event is no difference
// ($comment, title, unknown keywords), neither is whether something stands in its place or behind a $ref.
func Compare(before, after *Schema) []Change {
	m := newMeanings(before.compiled, after.compiled)
	c := comparison{patterns: map[string]*regexp.Regexp{}}
	c.schemas("", m.of(before.compiled), m.of(after.compiled))
	slices.SortStableFunc(c.changes, func(a, b Change) int { return strings.Compare(a.Place, b.Place) })
	return c.changes
}

type comparison struct {
	patterns map[string]*regexp.Regexp // those of patternProperties, by their texts
	changes  []Change
}

func (c *comparison) add(place string, e Effect, format string, args ...any) {
	c.changes = append(c.changes, Change{Place: place, Effect: e, Words: fmt.Sprintf(format, args...)})
}

// schemas compares what is asked of one place.
func (c *comparison) schemas(place string, b, a meaning) {
	switch {
	case never(b) && never(a):
		return
	case never(a):
		c.add(place, Refuses, "%s is not allowed any more: an event with it is refused", named(place))
		return
	case never(b):
		c.add(place, Widens, "%s is allowed now: who reads it may find it", named(place))
		return
	}
	c.types(place, b, a)
	c.required(place, b, a)
	c.properties(place, b, a)
	c.values(place, b, a)
	c.bounds(place, b, a)
	c.items(place, b, a)
	for _, key := range slices.Sorted(maps.Keys(union(b, a))) {
		if !compared[key] && !reflect.DeepEqual(b[key], a[key]) {
			c.unclear(place, key)
		}
	}
}

func (c *comparison) unclear(place, key string) {
	if key == "$ref" {
		key = "what $ref leads to"
	}
	c.add(place, Unclear, "%s has changed: whether an event that fitted still does has to be seen by hand", key)
}

// never says of a schema that it refuses everything.
func never(m meaning) bool {
	refused, ok := m["not"].(meaning)
	return ok && len(refused) == 0
}

// compared are the keywords that are compared one by one. Of others it can only be said whether they are the same.
var compared = func() map[string]bool {
	all := map[string]bool{}
	for key := range strings.FieldsSeq("type required properties additionalProperties items enum") {
		all[key] = true
	}
	for _, b := range bounds {
		all[b.key] = true
	}
	return all
}()

func union(a, b meaning) meaning {
	all := meaning{}
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
func kinds(m meaning) []string {
	all, ok := m["type"].([]string)
	if !ok {
		return everyKind
	}
	if slices.Contains(all, "number") && !slices.Contains(all, "integer") {
		all = append(slices.Clone(all), "integer")
	}
	return all
}

func (c *comparison) types(place string, b, a meaning) {
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
func written(m meaning) []string {
	all := kinds(m)
	if slices.Contains(all, "number") {
		all = slices.DeleteFunc(slices.Clone(all), func(k string) bool { return k == "integer" })
	}
	return all
}

func (c *comparison) required(place string, b, a meaning) {
	before, _ := b["required"].([]string)
	after, _ := a["required"].([]string)
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

func (c *comparison) properties(place string, b, a meaning) {
	before, _ := b["properties"].(meaning)
	after, _ := a["properties"].(meaning)
	for _, name := range slices.Sorted(maps.Keys(union(before, after))) {
		at := field(place, name)
		was, sureBefore := c.schemaOf(b, name)
		is, sureAfter := c.schemaOf(a, name)
		if sureBefore && sureAfter {
			c.schemas(at, was, is)
		} else {
			c.add(at, Unclear, "%s stands in properties of one of the two only, and other keywords look at it, too: whether an event that fitted still does has to be seen by hand", named(at))
		}
	}
	othersBefore, _ := b["additionalProperties"].(meaning)
	othersAfter, _ := a["additionalProperties"].(meaning)
	switch closedBefore, closedAfter := never(othersBefore), never(othersAfter); {
	case closedAfter && !closedBefore:
		c.add(place, Refuses, "%s may have no fields any more but those that are named: an event with another one is refused", named(place))
	case closedBefore && !closedAfter:
		c.add(place, Widens, "%s may have other fields than those that are named now", named(place))
	case !reflect.DeepEqual(othersBefore, othersAfter):
		c.unclear(place, "additionalProperties")
	}
}

// schemaOf returns the schema of a field: that in properties, else additionalProperties. sure is false where patternProperties or
// unevaluatedProperties may say more of it.
func (c *comparison) schemaOf(m meaning, name string) (schema meaning, sure bool) {
	properties, _ := m["properties"].(meaning)
	if own, ok := properties[name]; ok {
		return own.(meaning), true
	}
	patterns, _ := m["patternProperties"].(meaning)
	for p := range patterns {
		if c.pattern(p).MatchString(name) {
			return nil, false
		}
	}
	if others, ok := m["additionalProperties"]; ok {
		return others.(meaning), true
	}
	return nil, m["unevaluatedProperties"] == nil
}

func (c *comparison) pattern(text string) *regexp.Regexp {
	if c.patterns[text] == nil {
		c.patterns[text] = regexp.MustCompile(text) // Parse has compiled it
	}
	return c.patterns[text]
}

// items compares what is asked of elements. Where only one of the two says it and unevaluatedItems stands in its place, that has changed, too.
func (c *comparison) items(place string, b, a meaning) {
	before, was := b["items"].(meaning)
	after, is := a["items"].(meaning)
	if was && is || was != is && b["unevaluatedItems"] == nil && a["unevaluatedItems"] == nil {
		c.schemas(place+"/*", before, after)
	}
}

// values compares enum, of which const is one.
func (c *comparison) values(place string, b, a meaning) {
	before, was := b["enum"].([]any)
	after, is := a["enum"].([]any)
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

// missing returns those values that are not in another list, as texts.
func missing(all, in []any) (gone []string) {
	there := map[string]bool{}
	for _, v := range in {
		there[identity(v)] = true
	}
	for _, v := range all {
		if !there[identity(v)] {
			gone = append(gone, fmt.Sprint(v))
		}
	}
	return gone
}

// bounds are the keywords with a number; of those with up a larger one asks for more.
var bounds = []struct {
	key string
	up  bool
}{
	{"minimum", true}, {"exclusiveMinimum", true}, {"minLength", true}, {"minItems", true}, {"minProperties", true},
	{"maximum", false}, {"exclusiveMaximum", false}, {"maxLength", false}, {"maxItems", false}, {"maxProperties", false},
}

func (c *comparison) bounds(place string, b, a meaning) {
	for _, bound := range bounds {
		before, after := size(b[bound.key]), size(a[bound.key])
		switch {
		case b[bound.key] == a[bound.key]:
		case before == nil || after != nil && bound.up == (after.Cmp(before) > 0):
			c.add(place, Refuses, "%s: %s is %s now, and was %s: an event that is beyond it is refused", named(place), bound.key, amount(after), amount(before))
		default:
			c.add(place, Widens, "%s: %s is %s now, and was %s: who reads it must expect that", named(place), bound.key, amount(after), amount(before))
		}
	}
}

// size returns a bound, nil if there is none.
func size(v any) *big.Rat {
	text, _ := v.(string)
	n, _ := new(big.Rat).SetString(text)
	return n
}

func amount(n *big.Rat) string {
	switch {
	case n == nil:
		return "none"
	case n.IsInt() && n.Num().IsInt64():
		return n.RatString()
	}
	f, _ := n.Float64()
	return fmt.Sprint(f)
}
