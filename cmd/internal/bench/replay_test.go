package bench

import (
	"strings"
	"testing"
)

// Events that were never decided are not counted as skipped.
func TestSkippingOfOtherEventsFails(t *testing.T) {
	t.Parallel()
	g := gateOf(opened(t))
	if _, err := g.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := g
	other.seed++
	if _, err := other.filled(t.Context()); err == nil || !strings.Contains(err.Error(), "would run it") {
		t.Errorf("fill: %v", err)
	}
	if _, err := other.rewound(t.Context()); err == nil || !strings.Contains(err.Error(), "read again") {
		t.Errorf("after a reset: %v", err)
	}
}
