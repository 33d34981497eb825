package jsonschema

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

var (
	pairs     = flag.Int("pairs", howMany(), "how many pairs of schemas are compared")
	firstPair = flag.Uint64("first-pair", 1, "the seed of the first, the others follow")
)

// howMany is 2000 with FOREBAY_SOAK=1.
func howMany() int {
	if os.Getenv("FOREBAY_SOAK") == "1" {
		return 2000
	}
	return 200
}

// What Compare says of two small schemas holds for random events: where nothing refuses, all that fitted fit, and where nothing widens, the
// reverse. A failure names the seed: go test ./schemas/jsonschema -run Random -first-pair SEED -pairs 1.
func TestCompareRandom(t *testing.T) {
	t.Parallel()
	certain, pairs := 0, *pairs
	for seed := *firstPair; seed < *firstPair+uint64(pairs); seed++ {
		m := maker{rand.New(rand.NewPCG(seed, 0))}
		one := m.document()
		other := m.changed(one)
		before, after := parsed(t, one), parsed(t, other)
		if before == nil || after == nil {
			continue
		}
		changes := Compare(before, after)
		refuses := slices.ContainsFunc(changes, func(c Change) bool { return c.Effect != Widens })
		widens := slices.ContainsFunc(changes, func(c Change) bool { return c.Effect != Refuses })
		if refuses && widens {
			continue
		}
		certain++
		for range 100 {
			event := text(m.event(3))
			was, is := verdict(before, event), verdict(after, event)
			if !refuses && was == Fits && is != Fits || !widens && was != Fits && is == Fits {
				t.Fatalf("seed %d: %s was %s and is %s\nbefore %s\nafter  %s\nand that is said: %v", seed, event, was, is, text(one), text(other), changes)
			}
		}
	}
	t.Logf("of %d pairs something certain is said of %d", pairs, certain)
	if certain < pairs/10 {
		t.Errorf("of %d pairs something certain is said of %d only: the test has lost its use", pairs, certain)
	}
}

func verdict(s *Schema, event []byte) Verdict {
	v, _ := s.Check(event)
	return v
}

func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("a schema or an event of this test is no JSON: " + err.Error())
	}
	return b
}

// parsed returns nil for a schema that is refused: it is too dear, or a change has taken what a $ref leads to.
func parsed(t *testing.T, schema any) *Schema {
	s, err := Parse(text(schema))
	if err != nil {
		t.Logf("%v: %s", err, text(schema))
		return nil
	}
	return s
}

// maker makes schemas and events of few names and values, so that they meet.
type maker struct{ *rand.Rand }

type object = map[string]any

func pick[T any](m maker, from ...T) T { return from[m.IntN(len(from))] }

func some[T any](m maker, from ...T) []T {
	all := slices.Clone(from)
	m.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+m.IntN(min(2, len(all)))]
}

const definitions = 3

// document returns a schema with $defs. Each refers only to those behind it, so that there is no circle.
func (m maker) document() object {
	root, defs := m.schema(1+m.IntN(3), 0), object{}
	for n := range definitions {
		def := m.schema(1+m.IntN(2), n+1)
		def["$anchor"] = fmt.Sprintf("x%d", n)
		defs[fmt.Sprintf("d%d", n)] = def
	}
	root["$defs"] = defs
	return root
}

// schema returns one that refers to $defs from a number on. Every other one has keywords that see each other.
func (m maker) schema(depth, from int) object {
	s := object{}
	var together []string
	beside := pick(m, "$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies", "contains", "title")
	switch m.IntN(8) {
	case 0, 1:
		together = []string{"properties", "unevaluatedProperties", beside}
	case 2:
		together = []string{"properties", pick(m, "patternProperties", "additionalProperties"), "additionalProperties"}
	case 3:
		together = []string{pick(m, "items", "prefixItems", "contains"), "unevaluatedItems", beside}
	case 4:
		together = pick(m, []string{"enum", "const"}, []string{"contains", "minContains", "maxContains"}, []string{"if", "then", "else"})
	}
	for _, key := range together {
		m.set(s, key, depth, from)
	}
	for range m.IntN(max(2, 4-len(together))) {
		m.keyword(s, depth, from)
	}
	return s
}

func (m maker) inner(depth, from int) any {
	if depth <= 1 || m.IntN(4) == 0 {
		return pick[any](m, true, false, object{}, object{"type": m.kind()}, object{"type": m.kind()}, object{"const": m.scalar()})
	}
	return m.schema(depth-1, from)
}

func (m maker) inners(depth, from int) (all []any) {
	for range 1 + m.IntN(2) {
		all = append(all, m.inner(depth, from))
	}
	return all
}

func (m maker) byName(depth, from int, names ...string) object {
	all := object{}
	for _, n := range some(m, names...) {
		all[n] = m.inner(depth, from)
	}
	return all
}

var (
	names       = []string{"a", "b", "ab"}
	withSchema  = []string{"not", "if", "then", "else", "items", "contains", "propertyNames", "additionalProperties", "unevaluatedProperties", "unevaluatedItems"}
	withSchemas = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	byName      = []string{"properties", "patternProperties", "dependentSchemas", "dependencies"}
	others      = []string{"type", "required", "enum", "const", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
		"minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains", "pattern", "uniqueItems", "dependentRequired", "$ref", "title", "format"}
	keywords = slices.Concat(withSchema, withSchemas, byName, byName, others)
)

func (m maker) keyword(s object, depth, from int) { m.set(s, pick(m, keywords...), depth, from) }

// set gives a keyword a random value.
func (m maker) set(s object, key string, depth, from int) {
	switch {
	case key == "dependencies" && m.IntN(2) == 0, key == "dependentRequired":
		s[key] = object{pick(m, names...): some(m, names...)}
	case key == "patternProperties":
		s[key] = m.byName(depth, from, "^a", "b$", "^b")
	case slices.Contains(byName, key):
		s[key] = m.byName(depth, from, names...)
	case strings.HasPrefix(key, "unevaluated") && m.IntN(2) == 0:
		s[key] = false
	case slices.Contains(withSchema, key):
		s[key] = m.inner(depth, from)
	case slices.Contains(withSchemas, key):
		s[key] = m.inners(depth, from)
	case key == "$ref":
		if from < definitions {
			s[key] = fmt.Sprintf(pick(m, "#/$defs/d%d", "#x%d"), from+m.IntN(definitions-from))
		}
	default:
		s[key] = m.plain(key)
	}
}

// plain returns a value for a keyword without schemas.
func (m maker) plain(key string) any {
	switch key {
	case "type":
		return pick[any](m, m.kind(), some(m, everyKind...))
	case "required":
		return some(m, names...)
	case "enum":
		return some(m, m.scalar(), m.event(1), m.event(2))
	case "const":
		return pick(m, m.scalar(), m.event(1))
	case "pattern":
		return pick(m, "^a", "b$")
	case "uniqueItems":
		return m.IntN(4) > 0
	case "title", "format":
		return pick(m, "email", "date")
	case "multipleOf":
		return pick(m, 1, 2, 0.5)
	case "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum":
		return pick(m, 0, 1, 1.5)
	}
	return m.IntN(3)
}

func (m maker) kind() string { return pick(m, append([]string{"object", "array"}, everyKind...)...) }

func (m maker) scalar() any { return pick[any](m, nil, true, 0, 1, 1.5, 2, "", "a", "ab") }

// event returns a value of a depth.
func (m maker) event(depth int) any {
	switch n := m.IntN(8); {
	case depth == 0 || n < 2:
		return m.scalar()
	case n < 4:
		all := []any{}
		for range m.IntN(4) {
			all = append(all, m.event(depth-1))
		}
		return all
	}
	all := object{}
	for _, n := range append(names, "c") {
		if m.IntN(2) == 0 {
			all[n] = m.event(depth - 1)
		}
	}
	return all
}

// changed returns a copy of a document with one or two changes, seldom another document.
func (m maker) changed(doc object) object {
	if m.IntN(20) == 0 {
		return m.document()
	}
	after := clone(doc)
	for range pick(m, 1, 1, 2) {
		places := []spot{}
		collect(after, 0, &places)
		m.change(pick(m, places[0], pick(m, places...)))
	}
	return after
}

func clone(v object) object {
	var c object
	if err := json.Unmarshal(text(v), &c); err != nil {
		panic("what was written cannot be read: " + err.Error())
	}
	return c
}

// spot is a schema in a document, and from where on it may refer to $defs.
type spot struct {
	s    object
	from int
}

// collect finds the schemas of a document.
func collect(v any, from int, all *[]spot) {
	s, ok := v.(object)
	if !ok {
		return
	}
	*all = append(*all, spot{s, from})
	for _, key := range slices.Sorted(maps.Keys(s)) {
		switch inner := s[key].(type) {
		case []any:
			for _, i := range inner {
				if slices.Contains(withSchemas, key) {
					collect(i, from, all)
				}
			}
		case object:
			switch {
			case slices.Contains(withSchema, key):
				collect(inner, from, all)
			case key == "$defs":
				for n := range definitions {
					collect(inner[fmt.Sprintf("d%d", n)], n+1, all)
				}
			case slices.Contains(byName, key):
				for _, name := range slices.Sorted(maps.Keys(inner)) {
					collect(inner[name], from, all)
				}
			}
		}
	}
}

// change makes one change of a schema.
func (m maker) change(at spot) {
	has := slices.DeleteFunc(slices.Sorted(maps.Keys(at.s)), func(k string) bool { return k == "$defs" || k == "$anchor" })
	fields, _ := at.s["properties"].(object)
	rest := pick(m, "additionalProperties", "unevaluatedProperties", "items", "unevaluatedItems")
	switch n := m.IntN(8); {
	case n == 0 && len(has) > 0:
		delete(at.s, pick(m, has...))
	case n == 1 && len(has) > 0:
		m.set(at.s, pick(m, has...), 2, at.from)
	case n == 2 && len(fields) > 0:
		delete(fields, pick(m, slices.Sorted(maps.Keys(fields))...))
	case n == 3 && fields != nil:
		fields[pick(m, names...)] = m.inner(2, at.from)
	case n == 4: // what asks nothing, and may matter
		at.s[rest] = true
	case n == 5 && at.s[rest] != nil: // what asks the same, or not
		other := map[string]string{"additionalProperties": "unevaluatedProperties", "unevaluatedProperties": "additionalProperties", "items": "unevaluatedItems", "unevaluatedItems": "items"}[rest]
		at.s[other] = at.s[rest]
		delete(at.s, rest)
	default:
		m.keyword(at.s, 2, at.from)
	}
}
