package provider

import (
	"fmt"
	"slices"
	"time"

	"cel.dev/cel-go/cel"

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
	asText     bool
	epoch      *value
	rank       *value
	order      []string
	closed     bool // a status that is not in order makes the delivery unusable
}

type compiledCondition struct {
	from   value
	is     []string
	suffix string
}

// KeyError says what is wrong with a source's `secrets:` or a key of its `event:`.
type KeyError struct {
	// Key is below the source, for example "event.version.from".
	Key string
	Err error
}

func (e *KeyError) Error() string { return e.Key + " " + e.Err.Error() }

// Unwrap gives what is wrong.
func (e *KeyError) Unwrap() error { return e.Err }

// takes returns the types that an expression in version.from may have.
func (v *VersionConfig) takes() []*cel.Type {
	switch {
	case v.As == asText:
		return words
	case v.Kind == string(schemas.Timestamp):
		return moments
	}
	return counters
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
		return nil, &KeyError{"event.id", err}
	}
	if r.typ, err = c.typ(e.Type, m.typ); err != nil {
		return nil, &KeyError{"event.type", err}
	}
	if r.entity, err = c.entity(e.Entity, m.entity); err != nil {
		return nil, err
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
		return c.user(user, names)
	}
	return c.preset(preset)
}

func (c *refs) typ(user string, preset []string) ([]value, error) {
	if user == "" {
		return c.list(preset)
	}
	v, err := c.user(user, names)
	return []value{v}, err
}

// entity compiles the user's parts of the entity, or the preset's if the user has none.
func (c *refs) entity(user, preset []string) ([]value, error) {
	if user == nil {
		return c.list(preset)
	}
	var values []value
	for i, from := range user {
		v, err := c.user(from, names)
		if err != nil {
			return nil, &KeyError{fmt.Sprintf("event.entity[%d]", i), err}
		}
		values = append(values, v)
	}
	return values, nil
}

// list compiles values of the catalogue.
func (c *refs) list(froms []string) ([]value, error) {
	var values []value
	for _, from := range froms {
		v, err := c.preset(from)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// versions compiles the user's version, or the preset's clocks if the user has none, into r.clocks.
func (c *refs) versions(r *rule, m mapping, user *VersionConfig) error {
	if user != nil {
		if user.Kind == string(schemas.None) {
			return nil
		}
		from, err := c.user(user.From, user.takes())
		if err != nil {
			return &KeyError{"event.version.from", err}
		}
		r.clocks = []compiledClock{{from: from, kind: schemas.VersionKind(user.Kind), name: user.Clock, resolution: user.Resolution,
			asText: user.As == asText}}
		if err := c.epoch(&r.clocks[0], user.Epoch); err != nil {
			return err
		}
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

// condition compiles the user's condition for deleted entities, or the preset's, into r.deleted. There may be none.
func (c *refs) condition(r *rule, preset *condition, user *DeletedConfig) error {
	if user != nil {
		from, err := c.user(user.From, flags)
		if err != nil {
			return &KeyError{"event.deleted.from", err}
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
