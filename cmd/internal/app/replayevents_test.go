package app

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// An event that no replay runs is not taken into a plan, and it is said why.
func TestEventsThatNoPlanTakes(t *testing.T) {
	t.Parallel()
	const topic = "events.acme.github"
	bounds := []inbox.ReplayBounds{{Topic: topic, Partition: 1, TopicID: inbox.TopicIDText(ledger.TopicID{1})}}
	for name, tt := range map[string]struct {
		change func(*inbox.Item)
		says   string
	}{
		"a dead letter":                  {func(i *inbox.Item) { i.Status = "dead_letter" }, "is dead_letter, and would not run: `forebay dlq replay` runs the event on"},
		"what is behind it":              {func(i *inbox.Item) { i.Status = "parked" }, "`forebay dlq replay` for a dead letter of its entity"},
		"what is under way":              {func(i *inbox.Item) { i.Status = "received" }, "its run goes on by itself"},
		"what waits for a yes":           {func(i *inbox.Item) { i.Status = "waiting_approval" }, "`forebay approvals list`"},
		"what waits for a budget":        {func(i *inbox.Item) { i.Status = "waiting_budget" }, "once its budget has room again"},
		"what is under way again":        {func(i *inbox.Item) { i.Actions = []inbox.Action{{Name: "run", Replay: 7, Status: ledger.Dead}} }, "replay 7 runs it again, and its action run there is dead_letter: `forebay dlq replay`"},
		"what ran again":                 {func(i *inbox.Item) { i.Actions = []inbox.Action{{Name: "run", Replay: 7, Status: ledger.Discarded}} }, ""},
		"what an operator gave up":       {func(i *inbox.Item) { i.Status = "discarded" }, ""},
		"an event":                       {func(*inbox.Item) {}, ""},
		"of another partition":           {func(i *inbox.Item) { i.Partition, i.Pointer.TopicID = 2, ledger.TopicID{2} }, ""}, // Bounds has an error for it
		"no event":                       {func(i *inbox.Item) { i.EventID = "" }, "is no event"},
		"a topic that is not read":       {func(i *inbox.Item) { i.Topic = "events.acme.orders" }, "and the plan is of events.acme.github"},
		"a log that was cut":             {func(i *inbox.Item) { i.Offset = -7 }, "another record has its offset"},
		"a topic that was created again": {func(i *inbox.Item) { i.Pointer.TopicID = ledger.TopicID{2} }, "was created again"},
	} {
		item := inbox.Item{EventID: "e-1", Status: "done", Topic: topic, Partition: 1, Offset: 7, Pointer: ledger.Pointer{TopicID: ledger.TopicID{1}}}
		tt.change(&item)
		err := checkReplayable("plan", "reprocess", "acme/triage/github/e-1", &item, []string{topic})
		if err == nil {
			err = checkNamed("plan", []inbox.Item{item}, bounds)
		}
		if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || schemas.KindOf(err) == schemas.Internal) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}
