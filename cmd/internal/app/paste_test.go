package app

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
)

// A sender chooses an event's id. What we print for an operator to paste gives a shell the id as one word, whatever is in it, and forebay no
// flag.
func TestCommandsToPaste(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"e-1", "x; echo evil #", "$(echo evil)", "a'b", `"`, "--discard", "a b", "`echo evil`", "*"} {
		row := ledgerRow(&config.Config{}, &inbox.Attention{Kind: inbox.AttentionHeld, Team: "acme", Subscription: "triage", Source: "/acme/orders", EventID: id})
		tell := teller{id: "acme/triage/orders/" + id, item: &inbox.Item{Decision: gate.Quarantined}}
		_, next, _ := strings.Cut(tell.next(), "`")
		for _, command := range []string{row.Command, strings.TrimSuffix(next, "`")} {
			got, err := exec.Command("/bin/sh", "-c", `forebay() { printf '%s\n' "$@"; }; `+command).Output()
			if err != nil {
				t.Fatalf("%s: %v", command, err)
			}
			want := []string{"inbox", "redrive", "acme/triage/orders/" + id, "--reason", "TEXT"}
			if words := strings.Split(strings.TrimSpace(string(got)), "\n"); !slices.Equal(words, want) {
				t.Errorf("%s gives forebay %q, want %q", command, words, want)
			}
		}
	}
}
