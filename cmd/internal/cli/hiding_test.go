package cli

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// TestHidingIsOfTheTeam: what the main file has is hidden in every line, what a team's file has in lines that name the team: others' lines
// stay as they are, whatever somebody calls a secret.
func TestHidingIsOfTheTeam(t *testing.T) {
	t.Parallel()
	var to bytes.Buffer
	h := &hiding{to: &to}
	for _, text := range []string{"level=ERROR", "password"} { // nothing is hidden yet
		fmt.Fprintf(h, "%s\n", text)
	}
	h.hide(config.Hidden{Everywhere: map[string]string{"ledger-pw": "${env:LEDGER}"}, OfTeams: map[string]map[string]string{
		"acme":   {"acme-key": "${env:ACME_KEY}", "acme-old": "<redacted>"},
		"acme-2": {"level=ERROR": "<redacted>", "acme.triage": "<redacted>", "{\"time\":": "<redacted>"},
	}})
	h.hide(config.Hidden{OfTeams: map[string]map[string]string{"acme": {"acme-new": "<redacted>"}, "msg": {"destination": "<redacted>"}}})
	want := "level=ERROR\npassword\n"
	for _, line := range []struct{ text, shown string }{
		{"level=ERROR subscription=acme.triage error=acme-key", "level=ERROR subscription=acme.triage error=${env:ACME_KEY}"},
		{"{\"time\":1,\"source\":\"/acme/github\",\"error\":\"acme-old acme-new\"}", "{\"time\":1,\"source\":\"/acme/github\",\"error\":\"<redacted> <redacted>\"}"},
		{"teams/acme.yaml:5: acme-key", "teams/acme.yaml:5: ${env:ACME_KEY}"},
		{"topic=events.acme.orders ledger-pw", "topic=events.acme.orders ${env:LEDGER}"},
		{"level=ERROR destination=other/agent ledger-pw", "level=ERROR destination=other/agent ${env:LEDGER}"},
		{"level=ERROR subscription=acme-2.triage acme-key", "<redacted> subscription=acme-2.triage acme-key"},
		{"acme-2 and acme.triage: acme-key, ledger-pw", "acme-2 and <redacted>: ${env:ACME_KEY}, ${env:LEDGER}"},
	} {
		n, err := fmt.Fprintln(h, line.text)
		if err != nil || n != len(line.text)+1 {
			t.Fatal(n, err)
		}
		want += line.shown + "\n"
	}
	if to.String() != want {
		t.Errorf("got\n%s\nwant\n%s", to.String(), want)
	}
}
