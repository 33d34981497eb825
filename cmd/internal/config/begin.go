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
