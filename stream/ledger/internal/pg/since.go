package pg

import "time"

// Ago returns the time by this process's clock that was us microseconds ago. The database counts these by its own clock; the two clocks need
// not agree.
func Ago(us int64) time.Time { return time.Now().Add(-time.Duration(us) * time.Microsecond) }

// TimeOrZero returns *t, and the zero time for nil.
func TimeOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
