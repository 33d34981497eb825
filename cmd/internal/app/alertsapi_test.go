package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/alerts"
	"github.com/forebay-io/forebay/stream/ledger"
)

// What fires comes first, then what is about to, then each other alert once: quiet, or off where this process does not evaluate it. A silence
// shows on what it silences.
func TestAlertItems(t *testing.T) {
	t.Parallel()
	rule := func(name string) alerts.Rule { return alerts.Rule{Name: name, Severity: alerts.Warning} }
	all := []alerts.Rule{rule("A"), rule("B"), rule("C"), rule("D")}
	until := time.Now().Add(time.Hour)
	items := alertItems(all, all[:3], []alerts.Alert{
		{Rule: &all[1], Labels: map[string]string{"subscription": "acme.b"}, Summary: "pends"},
		{Rule: &all[0], Labels: map[string]string{"subscription": "acme.a"}, Firing: true, Value: 2, Summary: "fires"},
		{Rule: &all[0], Labels: map[string]string{"subscription": "pay.a"}, Firing: true, Summary: "fires, too"},
	}, []ledger.Silence{{Alert: "A", Team: "acme", Until: until}, {Alert: "C", Until: until}, {Alert: "D", Team: "acme", Until: until}})
	var got []string
	for _, i := range items {
		got = append(got, fmt.Sprintf("%s %s %s %q silenced %t", i.Alert, i.State, i.Team, i.Summary, i.SilencedUntil != nil))
	}
	want := []string{`A firing acme "fires" silenced true`, `A firing pay "fires, too" silenced false`, `B pending acme "pends" silenced false`, `C quiet  "" silenced true`, `D off  "" silenced false`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestKnownAlert(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ForebayLag": "<nil>", "ForebayLagg": `there is no alert "ForebayLagg"; was ForebayLag meant?`, "x": "there is no alert \"x\"; `forebay alerts list` has them",
	} {
		if got := fmt.Sprint(knownAlert(name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
