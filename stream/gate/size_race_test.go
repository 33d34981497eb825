//go:build race

package gate

// Under the race detector, a tenth, which may miss the rarest row: the gate has no goroutines, the normal run is its
// proof (.ci/gotest).
const (
	histories      = 170
	leastDecisions = 100_000
	everyRow       = false
)
