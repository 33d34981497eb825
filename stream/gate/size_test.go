//go:build !race

package gate

// What a normal run compares.
const (
	histories      = 1700
	leastDecisions = 1_000_000
)
