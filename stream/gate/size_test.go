//go:build !race

package gate

// What a normal run compares, and that it comes to every row of the decision table.
const (
	histories      = 1700
	leastDecisions = 1_000_000
	everyRow       = true
)
