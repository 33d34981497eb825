//go:build race

package gate

// Under the race detector, a tenth: the gate has no goroutines, the normal run is its proof.
const (
	histories      = 170
	leastDecisions = 100_000
)
