package cli

import "testing"

// What comes for a paused team is not decided: inbox list has nothing of it until the team is resumed, and pause says so.
func TestPauseSaysWhatItStops(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]steerFlags{
		"no decision and no attempt": {{All: true}, {Team: "acme"}},
		"no attempt":                 {{Agent: "coder"}, {Destination: "acme/coder"}},
	} {
		for _, c := range all {
			if got := c.stops(); got != want {
				t.Errorf("%+v: %s", c, got)
			}
		}
	}
}
