package template_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/sinks/template"
)

// TestSetCompilesADestinationOnce: a destination's parameters are not compiled again for each action that goes there.
func TestSetCompilesADestinationOnce(t *testing.T) {
	destination := map[string]any{"text": strings.Repeat("{{body.issue.number}} ", 50)}
	allocations := func(actions int) float64 {
		own := map[string]map[string]any{}
		for i := range actions {
			own[fmt.Sprintf("acme.triage/%d", i)] = map[string]any{"list": []any{"a"}}
		}
		return testing.AllocsPerRun(3, func() {
			if _, err := template.NewSet(declared, destination, own); err != nil {
				t.Error(err)
			}
		})
	}
	if none, many := allocations(0), allocations(50); many > 10*none { // expressions of the same text are compiled once anyway
		t.Errorf("%.0f allocations with 50 actions, %.0f without", many, none)
	}
}
