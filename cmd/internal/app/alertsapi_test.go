package app

import (
	"fmt"
	"testing"
)

func TestKnownAlert(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ForebayLag": "<nil>", "ForebayLagg": `there is no alert "ForebayLagg"; was ForebayLag meant?`, "x": "there is no alert \"x\"; deploy/runbooks has a page for each",
	} {
		if got := fmt.Sprint(knownAlert(name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
