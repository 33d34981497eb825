package cli

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// That nothing waits is said only where all is known and counted to the end, and to people.
func TestNothingWaits(t *testing.T) {
	t.Parallel()
	const nothing = "nothing waits for an operator"
	for want, found := range map[string]*api.Attention{
		nothing:                                {Counts: []api.AttentionCount{{Kind: api.KindQuarantinedDelivery}}},
		"quarantined_delivery: 0 of 0 or more": {Counts: []api.AttentionCount{{Kind: api.KindQuarantinedDelivery, More: true}}},
		"not known here: parked: no answer":    {Unknown: []api.AttentionUnknown{{Kind: "parked", Why: "no answer"}}},
	} {
		var said strings.Builder
		for _, output := range []string{"table", "wide", "id", "jsonl"} { // that nothing waits, an empty list says to a script
			said.Reset()
			(&attentionCmd{}).summary(&env{output: output, Options: Options{Stderr: &said}}, found)
			silent := want == nothing && (output == "id" || output == "jsonl")
			if silent != (said.Len() == 0) || !silent && !strings.Contains(said.String(), want) || want != nothing && strings.Contains(said.String(), nothing) {
				t.Errorf("-o %s of %+v: %q, want %q", output, found, said.String(), want)
			}
		}
	}
}

// What a row says to run reaches the process that was asked; what reads the file asks none.
func TestCommandsReachTheAskedProcess(t *testing.T) {
	t.Parallel()
	c := &attentionCmd{}
	c.URL = "http://127.0.0.1:19090"
	for command, asks := range map[string]bool{
		"forebay dlq replay act_1 --reason TEXT": true, "forebay resume --all --reason TEXT": true, "forebay approvals approve ap_1 --reason TEXT": true,
		"forebay config diff": true, "forebay sources list": true, "forebay inbox redrive 'acme/fulfil -c x' --reason TEXT": true,
		"forebay config check -c forebay.yaml": false, "forebay doctor -c forebay.yaml": false, "forebay topics apply -c forebay.yaml": false,
	} {
		want := command
		if asks {
			want += " --url http://127.0.0.1:19090"
		}
		if got := c.reaching(command); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A budget that each entity has is listed with the entity, and what lists ids tells them apart.
func TestBudgetsOfEntities(t *testing.T) {
	t.Parallel()
	const id = "teams.acme.subscriptions.fulfil.budget.runs /acme/orders o-1"
	if got := whereText(api.AttentionItem{Kind: api.KindBudget, ID: id, Team: "acme", Source: "/acme/orders", Entity: "o-1"}); got != id {
		t.Error(got)
	}
}
