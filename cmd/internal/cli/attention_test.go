package cli

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// That nothing waits is said only where all is known and counted to the end.
func TestNothingWaits(t *testing.T) {
	t.Parallel()
	const nothing = "nothing waits for an operator"
	for want, found := range map[string]*api.Attention{
		nothing:                                {Counts: []api.AttentionCount{{Kind: api.KindQuarantinedDelivery}}},
		"quarantined_delivery: 0 of 0 or more": {Counts: []api.AttentionCount{{Kind: api.KindQuarantinedDelivery, More: true}}},
		"not known here: parked: no answer":    {Unknown: []api.AttentionUnknown{{Kind: "parked", Why: "no answer"}}},
	} {
		var said strings.Builder
		(&attentionCmd{}).summary(&env{Options: Options{Stderr: &said}}, found)
		if !strings.Contains(said.String(), want) || want != nothing && strings.Contains(said.String(), nothing) {
			t.Errorf("%+v: %q, want %q", found, said.String(), want)
		}
	}
}
