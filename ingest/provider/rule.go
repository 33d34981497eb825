package provider

import (
	"fmt"
	"slices"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// rule is a compiled mapping.
type rule struct {
	id       value
	typ      []value
	entity   []value
	clocks   []compiledClock
	payload  schemas.PayloadKind
	deleted  *compiledCondition
	volatile []int // slots
	first    *int64
}

type compiledClock struct {
	from       value
	kind       schemas.VersionKind
	name       string
	resolution time.Duration
	rank       *value
	order      []string
	closed     bool // a status that is not in order makes the delivery unusable
}

type compiledCondition struct {
	from   value
	is     []string
	suffix string
}

// rule compiles m with what the source says instead. Only what is used is compiled, so that a value which is replaced
// is not read.
func (c *refs) rule(m, fallback mapping, e *EventConfig) (*rule, error) {
	if m.id == "" {
		m.id = fallback.id
	}
	if m.typ == nil {
		m.typ = fallback.typ
	}
	if m.volatile == nil {
		m.volatile = fallback.volatile
	}
	r := &rule{payload: m.payload, first: m.first}
	if e.Payload != "" {
		r.payload = schemas.PayloadKind(e.Payload)
	}
	if e.First != nil {
		r.first = e.First
	}
	var err error
	if r.id, err = c.choose(e.ID, m.id); err != nil {
		return nil, fmt.Errorf("event.id %w", err)
	}
	if e.Type != "" {
		r.typ, err = c.list([]string{e.Type}, c.user)
	} else {
		r.typ, err = c.list(m.typ, c.preset)
	}
	if err != nil {
		return nil, fmt.Errorf("event.type %w", err)
	}
	if e.Entity != nil {
		r.entity, err = c.list(e.Entity, c.user)
	} else {
		r.entity, err = c.list(m.entity, c.preset)
	}
	if err != nil {
		return nil, fmt.Errorf("event.entity %w", err)
	}
	if err := c.versions(r, m, e.Version); err != nil {
		return nil, err
	}
	if err := c.condition(r, m.deleted, e.Deleted); err != nil {
		return nil, err
	}
	for _, pointer := range append(slices.Clone(m.volatile), e.Volatile...) {
		if slot := c.slot(pointer); !slices.Contains(r.volatile, slot) {
			r.volatile = append(r.volatile, slot)
		}
	}
	return r, nil
}

func (c *refs) choose(user, preset string) (value, error) {
	if user != "" {
		return c.user(user)
	}
	return c.preset(preset)
}

func (c *refs) list(froms []string, compile func(string) (value, error)) ([]value, error) {
	var values []value
	for _, from := range froms {
		v, err := compile(from)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

func (c *refs) versions(r *rule, m mapping, user *VersionConfig) error {
	if user != nil {
		if user.Kind == string(schemas.None) {
			return nil
		}
		from, err := c.user(user.From)
		if err != nil {
			return fmt.Errorf("event.version.from %w", err)
		}
		r.clocks = []compiledClock{{from: from, kind: schemas.VersionKind(user.Kind), name: user.Clock, resolution: user.Resolution}}
		return c.rank(&r.clocks[0], user.Rank)
	}
	for _, k := range m.clocks {
		from, err := c.preset(k.from)
		if err != nil {
			return fmt.Errorf("version %w", err)
		}
		compiled := compiledClock{from: from, kind: k.kind, name: k.name, resolution: k.resolution}
		if k.rank != nil {
			rank, err := c.preset(k.rank.from + "?")
			if err != nil {
				return fmt.Errorf("rank %w", err)
			}
			compiled.rank, compiled.order = &rank, k.rank.order
		}
		r.clocks = append(r.clocks, compiled)
	}
	return nil
}

func (c *refs) condition(r *rule, preset *condition, user *DeletedConfig) error {
	if user != nil {
		from, err := c.user(user.From)
		if err != nil {
			return fmt.Errorf("event.deleted.from %w", err)
		}
		is := user.Is
		if len(is) == 0 {
			is = []string{"true"}
		}
		r.deleted = &compiledCondition{from: from, is: is}
		return nil
	}
	if preset == nil {
		return nil
	}
	from, err := c.preset(preset.from)
	if err != nil {
		return fmt.Errorf("deleted %w", err)
	}
	r.deleted = &compiledCondition{from: from, is: preset.is, suffix: preset.suffix}
	return nil
}
