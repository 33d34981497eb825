package app

import (
	"fmt"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/alerts"
	"github.com/forebay-io/forebay/stream/ledger"
)

// A process whose file names no receiver says that it looks for no alerts, so that an empty list is not taken for quiet.
func TestAlertsNotLookedFor(t *testing.T) {
	t.Parallel()
	l, err := ledger.Open(t.Context(), newLedger(t).config())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, looks := range []*alerts.Notifier{nil, {}} {
		list, err := (&alertsAPI{&App{stream: &streams{ledger: l}, alerts: looks}}).Alerts(t.Context())
		if err != nil || list.NotLookedFor != (looks == nil) {
			t.Errorf("looks %t: %+v %v", looks != nil, list, err)
		}
	}
}

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
