//go:build race

package owner

// Under the race detector only the smallest searches, with one process: the model has no goroutines, the normal run is its
// proof (.ci/gotest).
const wholeSearch = false
