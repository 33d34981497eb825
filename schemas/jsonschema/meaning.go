package jsonschema

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
)

// meaning is what a schema asks, by keyword, as its check understands it: what a $ref leads to stands in its place, and what asks nothing is
// left out. Two that are deeply equal take the same events; the reverse does not hold. One without keywords takes everything.
type meaning = map[string]any

// meanings reads compiled schemas. A schema to which several lead is read once, and then shared.
type meanings struct {
	known map[*validator.Schema]meaning
	// watched is that unevaluatedProperties or unevaluatedItems asks something somewhere. Then a keyword that asks nothing may matter,
	// since it makes fields or elements evaluated.
	watched bool
}

func newMeanings(all ...*validator.Schema) *meanings {
	seen := map[*validator.Schema]bool{}
	return &meanings{known: map[*validator.Schema]meaning{}, watched: slices.ContainsFunc(all, func(s *validator.Schema) bool { return watched(s, seen) })}
}

func watched(s *validator.Schema, seen map[*validator.Schema]bool) bool {
	if seen[s] {
		return false
	}
	seen[s] = true
	asks := func(s *validator.Schema) bool { return s != nil && (s.Bool == nil || !*s.Bool) }
	if asks(s.UnevaluatedProperties) || asks(s.UnevaluatedItems) {
		return true
	}
	once, each := inner(s)
	return slices.ContainsFunc(slices.Concat(once, each), func(s *validator.Schema) bool { return watched(s, seen) })
}

// of returns a schema's meaning. Parse has refused circles.
func (m *meanings) of(s *validator.Schema) meaning {
	if known, ok := m.known[s]; ok {
		return known
	}
	all := meaning{}
	if s.Bool != nil && !*s.Bool {
		all["not"] = meaning{}
	}
	m.schemas(all, s)
	values(all, s)
	m.simplify(all)
	for _, key := range []string{"$ref", "allOf"} { // alone, with one schema: that
		if only, ok := all[key].([]any); ok && len(all) == 1 && len(only) == 1 {
			all = only[0].(meaning)
		}
	}
	m.known[s] = all
	return all
}

// schemas adds the keywords with schemas.
func (m *meanings) schemas(to meaning, s *validator.Schema) {
	for key, inner := range map[string]*validator.Schema{
		"not": s.Not, "if": s.If, "then": s.Then, "else": s.Else, "contains": s.Contains, "items": s.Items2020, "propertyNames": s.PropertyNames,
		"unevaluatedItems": s.UnevaluatedItems, "unevaluatedProperties": s.UnevaluatedProperties,
	} {
		if inner != nil {
			to[key] = m.of(inner)
		}
	}
	lists := map[string][]*validator.Schema{"allOf": s.AllOf, "anyOf": s.AnyOf, "oneOf": s.OneOf, "prefixItems": s.PrefixItems}
	if s.Ref != nil {
		lists["$ref"] = []*validator.Schema{s.Ref}
	}
	for key, inner := range lists {
		var all []any
		for _, i := range inner {
			all = append(all, m.of(i))
		}
		if all != nil {
			to[key] = all
		}
	}
	m.fields(to, s)
}

// fields adds the keywords with schemas by the name of a field.
func (m *meanings) fields(to meaning, s *validator.Schema) {
	patterns, dependencies := map[string]*validator.Schema{}, meaning{}
	for p, inner := range s.PatternProperties {
		patterns[p.String()] = inner
	}
	for key, inner := range map[string]map[string]*validator.Schema{"properties": s.Properties, "patternProperties": patterns, "dependentSchemas": s.DependentSchemas} {
		all := meaning{}
		for name, i := range inner {
			all[name] = m.of(i)
		}
		if len(all) > 0 {
			to[key] = all
		}
	}
	for name, d := range s.Dependencies { // of older drafts, and checked
		if inner, ok := d.(*validator.Schema); ok {
			d = m.of(inner)
		}
		dependencies[name] = d
	}
	if len(dependencies) > 0 {
		to["dependencies"] = dependencies
	}
	switch additional := s.AdditionalProperties.(type) {
	case *validator.Schema:
		to["additionalProperties"] = m.of(additional)
	case bool:
		to["additionalProperties"] = meaning{}
		if !additional {
			to["additionalProperties"] = meaning{"not": meaning{}}
		}
	}
}

// simplify writes in one way what can be said in several.
func (m *meanings) simplify(all meaning) {
	for _, key := range [][2]string{{"additionalProperties", "unevaluatedProperties"}, {"items", "unevaluatedItems"}} {
		others, left := key[0], key[1]
		switch {
		case all[others] != nil: // leaves nothing unevaluated
			delete(all, left)
		case all[left] != nil && !evaluates(all): // is that of all others then
			all[others] = all[left]
			delete(all, left)
		}
		for _, k := range key {
			if schema, ok := all[k].(meaning); ok && len(schema) == 0 && !m.watched {
				delete(all, k)
			}
		}
	}
}

// evaluates says whether keywords beside properties, patternProperties and prefixItems may make fields or elements evaluated.
func evaluates(all meaning) bool {
	return slices.ContainsFunc([]string{"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies", "contains"},
		func(key string) bool { return all[key] != nil })
}

// values adds the keywords without schemas. Numbers are texts: equal ones are deeply equal.
func values(to meaning, s *validator.Schema) {
	for key, n := range map[string]*big.Rat{
		"minimum": s.Minimum, "exclusiveMinimum": s.ExclusiveMinimum, "maximum": s.Maximum, "exclusiveMaximum": s.ExclusiveMaximum, "multipleOf": s.MultipleOf,
	} {
		if n != nil {
			to[key] = n.RatString()
		}
	}
	for key, n := range map[string]*int{"maxLength": s.MaxLength, "maxItems": s.MaxItems, "maxProperties": s.MaxProperties, "minContains": s.MinContains, "maxContains": s.MaxContains} {
		if n != nil {
			to[key] = strconv.Itoa(*n)
		}
	}
	for key, n := range map[string]*int{"minLength": s.MinLength, "minItems": s.MinItems, "minProperties": s.MinProperties} {
		if n != nil && *n > 0 {
			to[key] = strconv.Itoa(*n)
		}
	}
	if s.Types != nil {
		to["type"] = s.Types.ToStrings()
	}
	if s.Pattern != nil {
		to["pattern"] = s.Pattern.String()
	}
	if s.UniqueItems {
		to["uniqueItems"] = true
	}
	if len(s.Required) > 0 {
		to["required"] = slices.Compact(slices.Sorted(slices.Values(s.Required)))
	}
	if len(s.DependentRequired) > 0 {
		to["dependentRequired"] = s.DependentRequired
	}
	allowed(to, s)
}

// allowed adds enum and const as one enum, sorted; one without values as what refuses everything.
func allowed(to meaning, s *validator.Schema) {
	if s.Enum == nil && s.Const == nil {
		return
	}
	all := map[string]any{}
	if s.Enum != nil {
		for _, v := range s.Enum.Values {
			all[identity(v)] = plain(v)
		}
	}
	if s.Const != nil {
		only := identity(*s.Const)
		if _, in := all[only]; in || s.Enum == nil {
			all = map[string]any{only: plain(*s.Const)}
		} else {
			all = nil
		}
	}
	if len(all) == 0 {
		to["not"] = meaning{}
		return
	}
	var list []any
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[key])
	}
	to["enum"] = list
}

// identity returns a text that two values have in common only if they are equal to a check.
func identity(v any) string { return fmt.Sprintf("%#v", plain(v)) }

// plain returns a value with each number that is an integer as one: 1.0 is 1. Beyond 2^53 a check tells them apart.
func plain(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = plain(e)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, e := range v {
			all[name] = plain(e)
		}
		return all
	}
	return v
}
