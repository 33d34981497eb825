package retention

import (
	"errors"
	"slices"
	"testing"
)

// A subscription that fails in every sweep that it is in is left out of none, one, three, seven and at most fifteen in a row; once it
// works it is in all.
func TestFailuresLeaveOut(t *testing.T) {
	t.Parallel()
	var f failures
	var left []int
	for range 7 {
		n := 0
		for f.skip(1) {
			n++
		}
		left = append(left, n)
		f.record(1, errors.New("no"))
	}
	if want := []int{0, 0, 1, 3, 7, maxSweepsToSkip, maxSweepsToSkip}; !slices.Equal(left, want) {
		t.Errorf("left out of %v sweeps before each, want %v", left, want)
	}
	if f.skip(2) {
		t.Error("another one is left out")
	}
	f.record(1, nil)
	if f.skip(1) {
		t.Error("left out although it works")
	}
	f.record(1, errors.New("no"))
	if f.skip(1) {
		t.Error("what failed before it worked is held against it")
	}
}
