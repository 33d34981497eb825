package template

import (
	"fmt"
	"maps"

	"github.com/forebay-io/forebay/stream/sink"
)

// Set has the parameters of a destination: its own, and those of single actions, which replace them name by name.
// Safe for concurrent use.
type Set struct {
	base *Params
	own  map[string]*Params // by "<team>.<subscription>/<action>"
	// Elsewhere returns, by the same names, what an action gives that goes to another destination by now, of which something is open for this one. It
	// is compiled when it is needed, and not to be changed once the Set is in use. nil: there is none.
	Elsewhere func(action string) (map[string]any, error)
}

// NewSet compiles the parameters of a destination and of actions by "<team>.<subscription>/<action>". The error is a
// *[KeyError].
func NewSet(declared []Param, destination map[string]any, actions map[string]map[string]any) (*Set, error) {
	base, err := Compile(declared, destination)
	if err != nil {
		return nil, err
	}
	s := &Set{base: base, own: map[string]*Params{}}
	for name, values := range actions {
		if s.own[name], err = s.with(values); err != nil { // the destination's are compiled once, whatever there are of actions
			return nil, err
		}
	}
	return s, nil
}

// with returns the destination's parameters with these in their place.
func (s *Set) with(values map[string]any) (*Params, error) {
	own, err := compileGiven(s.base.declared, values)
	if err != nil {
		return nil, err
	}
	nodes := maps.Clone(s.base.nodes)
	maps.Copy(nodes, own.nodes)
	own.nodes = nodes
	return own, nil
}

// Empty reports whether nothing is given, nor by default.
func (s *Set) Empty() bool { return len(s.base.nodes) == 0 && len(s.own) == 0 && s.Elsewhere == nil }

// Of returns the parameters of an action.
func (s *Set) Of(a sink.Action) (*Params, error) {
	name := a.Subscription + "/" + a.Name
	if p := s.own[name]; p != nil {
		return p, nil
	}
	if s.Elsewhere == nil {
		return s.base, nil
	}
	values, err := s.Elsewhere(name)
	if err != nil || len(values) == 0 {
		return s.base, err
	}
	return s.with(values)
}

// Render makes the parameters of an action, see [Params.Render].
func (s *Set) Render(a sink.Action) (Values, error) {
	p, err := s.Of(a)
	if err != nil {
		return nil, &sink.AttemptError{Class: sink.ClassTemplate, Err: fmt.Errorf("the action goes elsewhere by now, and %w", err), Untouched: true}
	}
	return p.Render(a)
}
