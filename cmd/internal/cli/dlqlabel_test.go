package cli

import (
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

func TestDiedLabel(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{"dead_letter": "died", "unknown": "died", "done": "ended", "discarded": "ended", "stale": "ended", "superseded": "ended",
		"failed": "last attempt", "processing": "last attempt"} {
		if got := diedLabel(&api.DeadLetterItem{Status: status}); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}
