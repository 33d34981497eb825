package config

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Begin is where in the log a new subscription begins: at the log's start, at a time, or (the zero value) now.
type Begin struct {
	All bool      // at the log's start
	At  time.Time // at this time, unless it is zero
}

// clockSkew is how far the clock of whoever writes a time, or of the brokers, may be ahead of this machine's.
const clockSkew = 5 * time.Minute

// begin checks where a subscription begins. A log has no place for a time that is still to come: it would begin at the end of today's.
func (ck *checker) begin(path, text string) {
	if ck.unresolved(path) {
		return
	}
	begin, err := ParseBegin(text)
	if err != nil {
		ck.problem(path, "%v", err)
	} else if ahead := time.Until(begin.At); ahead > clockSkew {
		ck.problem(path, "%s is in the future, by %s; the subscription would begin at once all the same: write a time that is past, or add it when it is to begin",
			text, Duration(ahead.Round(time.Second)))
	}
}

// ParseBegin reads now, all or an RFC 3339 time.
func ParseBegin(s string) (Begin, error) {
	switch s {
	case "now":
		return Begin{}, nil
	case "all":
		return Begin{All: true}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return Begin{}, fmt.Errorf("%q is not now, all or a time such as 2026-11-21T08:00:00Z", clip(s))
	}
	return Begin{At: t}, nil
}
