package pg

import "time"

// Ago is when something was, by this process's clock, as it is later compared with. How long ago, in microseconds, the database has
// said by its own: the two need not agree.
func Ago(us int64) time.Time { return time.Now().Add(-time.Duration(us) * time.Microsecond) }

// TimeOrNull is a time as a parameter: null for the zero time.
func TimeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// TimeOrZero is the zero time for null.
func TimeOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
