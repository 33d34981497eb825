package provider

import "github.com/forebay-io/forebay/schemas"

// epoch compiles a source's `event.version.epoch`.
func (c *refs) epoch(to *compiledClock, user string) error {
	if user == "" {
		return nil
	}
	from, err := c.user(user, counters)
	if err != nil {
		return &KeyError{"event.version.epoch", err}
	}
	to.epoch = &from
	return nil
}

// epoch is which incarnation of its counter the provider means; 0 where the mapping does not ask. One that is missing is
// not guessed: by its value alone, the first event after a reset and a late one look the same.
func (d *delivery) epoch(c *compiledClock) (int64, *Unusable) {
	if c.epoch == nil {
		return 0, nil
	}
	text, _, bad := d.scalar(*c.epoch)
	if bad != nil {
		return 0, bad
	}
	n, ok := parseCounter(text)
	if !ok || n < 1 || n > schemas.MaxEpoch {
		return 0, unusable(BadVersion, "%s is not an integer from 1 to %d", c.epoch.text, schemas.MaxEpoch)
	}
	return n, nil
}
