package provider

import (
	"errors"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/schemas"
)

// maxRanks bounds a rank's order: a status has a handful of values.
const maxRanks = 100

// RankConfig is a source's `event.version.rank`: it breaks ties of one version by a status, so that what has happened
// in one second (or revision) still has an order.
type RankConfig struct {
	From string `yaml:"from,omitempty" json:"from,omitempty"`
	// Order lists the values from the first to the last. A delivery with another value is unusable.
	Order []string `yaml:"order,omitempty" json:"order,omitempty"`
}

// validate checks the rank of a version of a kind. None at all is valid.
func (r *RankConfig) validate(kind schemas.VersionKind) error {
	if r == nil {
		return nil
	}
	switch {
	case kind == schemas.None:
		return errors.New("event.version.rank has no meaning with kind: none")
	case r.From == "":
		return errors.New("event.version.rank.from is missing: say where the status stands, for example /job/status")
	case r.From == "sha256:body":
		return errors.New("event.version.rank.from is a hash of the body, which has no order: say where the status stands, for example /job/status")
	case len(r.Order) == 0:
		return errors.New("event.version.rank.order is missing: list the values from the lowest rank to the highest")
	case len(r.Order) > maxRanks:
		return fmt.Errorf("event.version.rank.order has %d values, more than %d", len(r.Order), maxRanks)
	}
	for i, v := range r.Order {
		if v == "" || checkText("", "", v, MaxType) != nil {
			return fmt.Errorf("event.version.rank.order: value %d is empty, longer than %d bytes or not plain text", i+1, MaxType)
		}
		if slices.Index(r.Order, v) < i {
			return fmt.Errorf("event.version.rank.order: %q is listed twice", v)
		}
	}
	return nil
}

// rank compiles a source's own rank, which knows all values: a new one has no place, and to give it one would make it
// stale or newer by chance.
func (c *refs) rank(to *compiledClock, user *RankConfig) error {
	if user == nil {
		return nil
	}
	from, err := c.user(user.From, names)
	if err != nil {
		return &KeyError{"event.version.rank.from", err}
	}
	to.rank, to.order, to.closed = &from, user.Order, true
	return nil
}

// sub returns the place of the status in the clock's order, from 1. A preset's rank is open, because providers add values: an
// unknown or missing one is 0, below all others of its time.
func (d *delivery) sub(c *compiledClock) (int32, *Unusable) {
	if c.rank == nil {
		return 0, nil
	}
	status, _, bad := d.scalar(*c.rank)
	if bad != nil {
		return 0, bad
	}
	place := slices.Index(c.order, status) + 1
	if place == 0 && c.closed {
		return 0, unusable(BadVersion, "%s is none of rank.order", c.rank.text)
	}
	return int32(place), nil
}
