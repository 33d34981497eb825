package template

import (
	"maps"

	"github.com/forebay-io/forebay/stream/sink"
)

// Set has the parameters of a destination: its own, and those of single actions, which replace them name by name.
// Safe for concurrent use.
type Set struct {
	base *Params
	own  map[string]*Params // by "<team>.<subscription>/<action>"
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
		own, err := compileGiven(declared, values) // the destination's are compiled once, whatever there are of actions
		if err != nil {
			return nil, err
		}
		nodes := maps.Clone(base.nodes)
		maps.Copy(nodes, own.nodes)
		own.nodes = nodes
		s.own[name] = own
	}
	return s, nil
}

// Empty reports whether nothing is given, nor by default.
func (s *Set) Empty() bool { return len(s.base.nodes) == 0 && len(s.own) == 0 }

// Of returns the parameters of an action.
func (s *Set) Of(a sink.Action) *Params {
	if p := s.own[a.Subscription+"/"+a.Name]; p != nil {
		return p
	}
	return s.base
}

// Render makes the parameters of an action, see [Params.Render].
func (s *Set) Render(a sink.Action) (Values, error) { return s.Of(a).Render(a) }
