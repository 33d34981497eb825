package jsonschema

import (
	"errors"
	"fmt"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps is how many steps a schema may take for one value: with alternatives inside of alternatives they multiply.
const maxSteps = 100_000

// cost is how many steps a check takes at most: once; for each value of the body, below items and its like; and for each byte, by patterns.
type cost struct{ once, each, bytes int }

func (c *cost) add(d cost) { c.once += d.once; c.each += d.each; c.bytes += d.bytes }

// loop adds what is checked for each value.
func (c *cost) loop(d cost) { c.each += d.once + d.each; c.bytes += d.bytes }

// costOf bounds a check by a schema. The error says why no bound can be given, or that it is too high.
func costOf(s *validator.Schema) (cost, error) {
	w := walker{known: map[*validator.Schema]cost{}, under: map[*validator.Schema]bool{}}
	return w.cost(s)
}

// walker goes through a compiled schema as a check does, each $ref as if what it leads to stood in its place.
type walker struct {
	known map[*validator.Schema]cost
	under map[*validator.Schema]bool // under way
}

var errDynamic = errors.New("$dynamicRef and other drafts' references are not taken: use $ref, and leave $schema out of inner schemas")

func (w *walker) cost(s *validator.Schema) (cost, error) {
	if c, ok := w.known[s]; ok {
		return c, nil
	}
	at := shown(fragment(s.Location))
	if w.under[s] {
		return cost{}, fmt.Errorf("%s leads back to itself by $ref, so that a check has no bound: write out as many levels as events have, and leave deeper ones open", at)
	}
	if s.DraftVersion != 0 && s.DraftVersion < 2020 || s.DynamicRef != nil || s.RecursiveRef != nil {
		return cost{}, errDynamic
	}
	w.under[s] = true
	total := ownCost(s)
	once, each := inner(s)
	for _, child := range once {
		c, err := w.cost(child)
		if err != nil {
			return cost{}, err
		}
		total.add(c)
	}
	for _, child := range each {
		c, err := w.cost(child)
		if err != nil {
			return cost{}, err
		}
		total.loop(c)
	}
	if total.once+total.each+total.bytes > maxSteps {
		return cost{}, fmt.Errorf("%s takes over %d steps a value, since alternatives inside of alternatives multiply: use fewer of them (anyOf, oneOf, $ref)", at, maxSteps)
	}
	delete(w.under, s)
	w.known[s] = total
	return total, nil
}

// ownCost is that of a schema's keywords without those of inner schemas.
func ownCost(s *validator.Schema) cost {
	c := cost{once: 1 + len(s.Required) + len(s.DependentRequired) + len(s.Dependencies)}
	if s.Enum != nil {
		c.once += len(s.Enum.Values)
	}
	c.bytes += instructions(s.Pattern)
	for p := range s.PatternProperties {
		c.each++
		c.bytes += instructions(p)
	}
	if s.UniqueItems || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil {
		c.each++
	}
	return c
}

func instructions(p validator.Regexp) int {
	if s, ok := p.(*sized); ok {
		return s.instructions
	}
	return 0
}

// inner returns the schemas inside of one: those that are held against a place of the body, and those that are held against each of its
// elements or fields.
func inner(s *validator.Schema) (once, each []*validator.Schema) {
	add := func(list *[]*validator.Schema, more ...*validator.Schema) {
		for _, m := range more {
			if m != nil {
				*list = append(*list, m)
			}
		}
	}
	add(&once, s.Ref, s.Not, s.If, s.Then, s.Else)
	add(&once, s.AllOf...)
	add(&once, s.AnyOf...)
	add(&once, s.OneOf...)
	add(&once, s.PrefixItems...)
	for _, p := range s.Properties {
		add(&once, p)
	}
	for _, d := range s.DependentSchemas {
		add(&once, d)
	}
	for _, d := range s.Dependencies { // of older drafts, and checked
		if d, ok := d.(*validator.Schema); ok {
			add(&once, d)
		}
	}
	for _, p := range s.PatternProperties {
		add(&each, p)
	}
	add(&each, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems)
	if additional, ok := s.AdditionalProperties.(*validator.Schema); ok {
		add(&each, additional)
	}
	return once, each
}
