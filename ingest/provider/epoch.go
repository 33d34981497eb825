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

// epoch returns the run of the provider's counter that the value belongs to; 0 if the mapping has no epoch. Where the file maps one it must be
// there: by the value alone, the first event after a reset looks like a late one. A preset maps one only beside values that go on growing
// without it, and it may be missing.
func (d *delivery) epoch(c *compiledClock) (int64, *Unusable) {
	if c.epoch == nil {
		return 0, nil
	}
	text, found, bad := d.scalar(*c.epoch)
	if bad != nil || !found { // bad too if it must be there and is not
		return 0, bad
	}
	n, ok := parseCounter(text)
	if !ok || n < 1 || n > schemas.MaxEpoch {
		return 0, unusable(BadVersion, "%s is not an integer from 1 to %d", c.epoch.text, schemas.MaxEpoch)
	}
	return n, nil
}
