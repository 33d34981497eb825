package reader

import (
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Globs returns a Config.Filter that wants an event if its whole type matches at least one of the patterns. In a pattern, * matches
// any text, dots included; everything else matches itself. Without patterns it wants everything.
func Globs(patterns []string) func(eventType, source string) bool {
	if len(patterns) == 0 {
		return func(string, string) bool { return true }
	}
	globs := make([]glob, len(patterns))
	for i, p := range patterns {
		globs[i] = parseGlob(p)
	}
	return func(eventType, _ string) bool {
		for _, g := range globs {
			if g.match(eventType) {
				return true
			}
		}
		return false
	}
}

// glob is a pattern cut at its stars: what must come first, last, and in this order in between.
type glob struct {
	exact       bool // no star: first is all
	first, last string
	middle      []string
}

// parseGlob cuts a pattern at its stars.
func parseGlob(p string) glob {
	parts := strings.Split(p, "*")
	if len(parts) == 1 {
		return glob{exact: true, first: p}
	}
	g := glob{first: parts[0], last: parts[len(parts)-1]}
	for _, m := range parts[1 : len(parts)-1] {
		if m != "" {
			g.middle = append(g.middle, m)
		}
	}
	return g
}

// match takes time linear in s for each middle part. It never backtracks: the leftmost match of each part leaves the most text for
// the parts after it.
func (g glob) match(s string) bool {
	if g.exact {
		return s == g.first
	}
	s, ok := strings.CutPrefix(s, g.first)
	if !ok {
		return false
	}
	if s, ok = strings.CutSuffix(s, g.last); !ok {
		return false
	}
	for _, m := range g.middle {
		if _, s, ok = strings.Cut(s, m); !ok {
			return false
		}
	}
	return true
}

// Wants returns a function that reports whether a replay's filter wants a record, as far as the record says; what the ledger knows of it is
// not asked. A record that cannot be decided has no source, type and entity.
func Wants(f ledger.ReplayFilter) func(*ledger.Record) bool {
	typed, named := Globs(f.Types), map[schemas.EventKey]bool{}
	for _, e := range f.Events {
		named[schemas.NewEventKey(e.Source, e.ID)] = true
	}
	return func(r *ledger.Record) bool {
		return (len(named) == 0 || !r.NoEvent() && named[r.Key]) && (len(f.Sources) == 0 || slices.Contains(f.Sources, r.Source)) && (f.Entity == "" || r.Entity == f.Entity) &&
			(len(f.Types) == 0 || r.Type != "" && typed(r.Type, r.Source))
	}
}

// wants returns "" and its second key for an event that the subscription wants, else why not: gate.ReasonType or ReasonMatch. Where an expression
// fails, that is ReasonExpression and an error.
func (rd *Reader) wants(e *schemas.Event) (gate.Reason, gate.Also, error) {
	if !rd.filter(e.Type, e.Source) {
		return gate.ReasonType, gate.Also{}, nil
	}
	if rd.selects == nil {
		return "", gate.Also{}, nil
	}
	switch matches, also, err := rd.selects(e); {
	case err != nil:
		return gate.ReasonExpression, gate.Also{}, err
	case !matches:
		return gate.ReasonMatch, gate.Also{}, nil
	default:
		return "", also, nil
	}
}
