package provider

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cel.dev/cel-go/cel"

	"github.com/forebay-io/forebay/schemas"
)

// rule is a compiled mapping.
type rule struct {
	id        value
	scope     *value // what ids are unique inside of; nil: the source
	typ       []value
	entity    []value
	clocks    []compiledClock
	payload   schemas.PayloadKind // of events for which snapshots does not hold
	snapshots *compiledCondition
	deleted   *compiledCondition
	volatile  []int // slots
	first     *int64
	sender    compiledSender
	title     *value
}

type compiledSender struct {
	id, login           *value
	automation          *compiledCondition
	trust, author       *value
	others              *value // each of its refs counts
	mark, made, changed *compiledCondition
}

type compiledClock struct {
	from       value
	kind       schemas.VersionKind
	name       string
	by         *value
	resolution time.Duration
	utc        bool
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
	line   string
	there  bool
	unless *compiledCondition
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
		m.id, m.scope = fallback.id, fallback.scope
	}
	if m.typ == nil {
		m.typ = fallback.typ
	}
	if m.volatile == nil {
		m.volatile = fallback.volatile
	}
	r := &rule{payload: schemas.Delta, first: m.first}
	if e.First != nil {
		r.first = e.First
	}
	var err error
	if r.id, err = c.choose(e.ID, m.id); err != nil {
		return nil, &KeyError{"event.id", err}
	}
	if e.ID == "" && m.scope != "" {
		scope, err := c.preset(m.scope)
		if err != nil {
			return nil, fmt.Errorf("scope %w", err)
		}
		r.scope = &scope
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
	if r.snapshots, err = c.condition(m.snapshots); err != nil {
		return nil, fmt.Errorf("snapshots %w", err)
	}
	if e.Payload != "" {
		r.payload, r.snapshots = schemas.PayloadKind(e.Payload), nil
	}
	if r.deleted, err = c.deleted(m.deleted, e.Deleted); err != nil {
		return nil, err
	}
	if err := c.people(r, m, fallback); err != nil {
		return nil, err
	}
	for _, pointer := range append(slices.Clone(m.volatile), e.Volatile...) {
		if slot := c.slot(pointer); !slices.Contains(r.volatile, slot) {
			r.volatile = append(r.volatile, slot)
		}
	}
	return r, nil
}

// people compiles who made it happen and what the entity is called. A body is not refused for what they read.
func (c *refs) people(r *rule, m, fallback mapping) (err error) {
	c.loose = true
	defer func() { c.loose = false }()
	if m.sender == (sender{}) {
		m.sender = fallback.sender
	}
	for _, v := range []struct {
		from string
		to   **value
	}{{m.sender.id, &r.sender.id}, {m.sender.login, &r.sender.login}, {m.sender.trust, &r.sender.trust}, {m.sender.author, &r.sender.author},
		{m.sender.others, &r.sender.others}} {
		if *v.to, err = c.optional(v.from); err != nil {
			return fmt.Errorf("sender %w", err)
		}
	}
	for _, v := range []struct {
		is *condition
		to **compiledCondition
	}{{m.sender.automation, &r.sender.automation}, {m.sender.mark, &r.sender.mark}, {m.sender.made, &r.sender.made}, {m.sender.changed, &r.sender.changed}} {
		if *v.to, err = c.condition(v.is); err != nil {
			return fmt.Errorf("sender %w", err)
		}
	}
	if r.title, err = c.optional(cmp.Or(m.title, fallback.title)); err != nil {
		return fmt.Errorf("title %w", err)
	}
	return nil
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
		from.optional = user.Missing == MissingArrival
		r.clocks = []compiledClock{{from: from, kind: schemas.VersionKind(user.Kind), name: user.Clock, resolution: user.Resolution,
			asText: user.As == asText}}
		if err := c.epoch(&r.clocks[0], user.Epoch); err != nil {
			return err
		}
		return c.rank(&r.clocks[0], user.Rank)
	}
	for _, k := range m.clocks {
		compiled, err := c.clock(k)
		if err != nil {
			return fmt.Errorf("version %w", err)
		}
		r.clocks = append(r.clocks, compiled)
	}
	return nil
}

// clock compiles a clock of the catalogue. Only its value may have to be there.
func (c *refs) clock(k clock) (compiledClock, error) {
	from, err := c.preset(k.from)
	if err != nil {
		return compiledClock{}, err
	}
	compiled := compiledClock{from: from, kind: k.kind, name: k.name, resolution: k.resolution, utc: k.utc, asText: k.text}
	if compiled.by, err = c.optional(k.by); err != nil {
		return compiled, fmt.Errorf("by %w", err)
	}
	if compiled.epoch, err = c.optional(k.epoch); err != nil {
		return compiled, fmt.Errorf("epoch %w", err)
	}
	if k.rank != nil {
		compiled.order = k.rank.order
		if compiled.rank, err = c.optional(k.rank.from); err != nil {
			return compiled, fmt.Errorf("rank %w", err)
		}
	}
	return compiled, nil
}

// optional compiles a value of the catalogue that a delivery may lack. There may be none.
func (c *refs) optional(from string) (*value, error) {
	if from == "" {
		return nil, nil // no value is no error
	}
	v, err := c.preset(from + "?")
	return &v, err
}

// deleted compiles the user's condition for deleted entities, or the preset's. There may be none.
func (c *refs) deleted(preset *condition, user *DeletedConfig) (*compiledCondition, error) {
	if user == nil {
		compiled, err := c.condition(preset)
		if err != nil {
			return nil, fmt.Errorf("deleted %w", err)
		}
		return compiled, nil
	}
	from, err := c.user(user.From, flags)
	if err != nil {
		return nil, &KeyError{"event.deleted.from", err}
	}
	is := user.Is
	if len(is) == 0 {
		is = []string{"true"}
	}
	return &compiledCondition{from: from, is: is}, nil
}

// condition compiles a condition of the catalogue. There may be none.
func (c *refs) condition(preset *condition) (*compiledCondition, error) {
	if preset == nil {
		return nil, nil
	}
	unless, err := c.condition(preset.unless)
	if err != nil {
		return nil, err
	}
	from, err := c.preset(preset.from)
	return &compiledCondition{from: from, is: preset.is, suffix: preset.suffix, line: preset.line, there: preset.there, unless: unless}, err
}
