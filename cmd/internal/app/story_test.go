package app

import (
	"testing"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// What ended without having run does not read as done, and a conflict says how it leaves the list of what waits for an operator.
func TestNextOfWhatEnded(t *testing.T) {
	t.Parallel()
	applied := func(status ledger.Status) inbox.Item {
		return inbox.Item{Decision: gate.Applied, Actions: []inbox.Action{{Name: "tell", Status: ledger.Done}, {ID: "act_run", Name: "run", Status: status}}}
	}
	for name, tt := range map[string]struct {
		item inbox.Item
		want string
	}{
		"done":     {applied(ledger.Done), "nothing: it is done"},
		"given up": {applied(ledger.Discarded), "nothing: an operator gave action run up"},
		"overtaken": {applied(ledger.Stale), "nothing: action run did not run: a newer event of its entity had been started before it; " +
			"`forebay dlq replay act_run --force --reason TEXT` runs it all the same"},
		"superseded": {applied(ledger.Superseded), "nothing: action run did not run: a newer state of its entity runs instead"},
		"a conflict": {inbox.Item{Decision: gate.Conflict}, "nothing: another body came first under its id; `forebay attention` lists it until " +
			"`forebay inbox redrive a/b/c/1@2 --discard --reason TEXT`"},
		"a conflict left at that": {inbox.Item{Decision: gate.Conflict, Discarded: &inbox.Redriven{}}, "nothing: another body came first under its id"},
	} {
		tell := teller{id: "a/b/c/1@2", item: &tt.item}
		if got := tell.next(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
