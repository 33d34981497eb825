package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
)

// TestSnapshots goes through the event types that could be taken for snapshots because their bodies carry the whole object. Only the
// ones that say nothing more are: of all others, what they say is in no later event.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	github := func(event, object string, actions ...string) (events []*schemas.Event) {
		s := compile(t, provider.Config{Preset: "github"})
		for _, action := range actions {
			body := fmt.Sprintf(`{"action":%q,"repository":{"id":7},%s}`, action, object)
			e, err := s.Event(request(body, "X-GitHub-Event: "+event, "X-GitHub-Delivery: 1"), received)
			if err != nil {
				t.Fatal(event, action, err)
			}
			events = append(events, e)
		}
		return events
	}
	stripe := func(object string, types ...string) (events []*schemas.Event) {
		s := compile(t, provider.Config{Preset: "stripe"})
		for _, typ := range types {
			e, err := s.Event(request(fmt.Sprintf(`{"id":"evt_1","object":"event","type":%q,"created":1677834420,"data":{"object":{"object":%q,"id":"x"}}}`, typ, object)), received)
			if err != nil {
				t.Fatal(typ, err)
			}
			events = append(events, e)
		}
		return events
	}
	const (
		at       = `"updated_at":"2019-05-15T15:20:18Z"`
		issue    = `"issue":{"number":2,` + at + `}`
		pull     = `"number":2,"pull_request":{"number":2,` + at + `}`
		run      = `"workflow_run":{"id":9,"status":"queued",` + at + `}`
		check    = `"check_run":{"id":1,"head_sha":"ab","status":"in_progress","started_at":"2019-05-15T15:20:18Z"}`
		job      = `"workflow_job":{"id":1,"run_id":9,"status":"in_progress","started_at":"2019-05-15T15:20:18Z"}`
		topic    = `"discussion":{"number":2,` + at + `}`
		release  = `"release":{"id":2,` + at + `}`
		item     = `"projects_v2_item":{"id":2,` + at + `},"organization":{"id":8}`
		app      = `"installation":{"id":3,"account":{},` + at + `}`
		snapshot = schemas.Snapshot
		delta    = schemas.Delta
	)
	for _, tt := range []struct {
		want   schemas.PayloadKind
		events []*schemas.Event
	}{
		{snapshot, github("issues", issue, "edited")},
		{delta, github("issues", issue, "assigned", "closed", "deleted", "demilestoned", "labeled", "locked", "milestoned", "opened", "pinned",
			"reopened", "transferred", "typed", "unassigned", "unlabeled", "unlocked", "unpinned", "untyped", "what_comes_next")},
		{snapshot, github("pull_request", pull, "edited", "synchronize")},
		{delta, github("pull_request", pull, "assigned", "auto_merge_disabled", "auto_merge_enabled", "closed", "converted_to_draft", "demilestoned",
			"dequeued", "enqueued", "labeled", "locked", "milestoned", "opened", "ready_for_review", "reopened", "review_request_removed",
			"review_requested", "unassigned", "unlabeled", "unlocked")},
		{snapshot, github("workflow_run", run, "requested", "in_progress")},
		{delta, github("workflow_run", run, "completed")},
		{snapshot, github("check_run", check, "created")},
		{delta, github("check_run", check, "completed", "rerequested", "requested_action")},
		{snapshot, github("check_run", strings.Replace(check, "in_progress", "queued", 1), "created")},
		{snapshot, github("check_run", `"check_run":{"id":1,"head_sha":"ab"}`, "created")},
		{delta, github("check_run", strings.Replace(check, "in_progress", "completed", 1), "created")},
		{snapshot, github("workflow_job", job, "queued", "waiting", "in_progress")},
		{delta, github("workflow_job", job, "completed")},
		{snapshot, github("discussion", topic, "edited")},
		{delta, github("discussion", topic, "answered", "closed", "created", "deleted", "labeled", "transferred")},
		{snapshot, github("release", release, "edited")},
		{delta, github("release", release, "created", "deleted", "prereleased", "published", "released", "unpublished")},
		{delta, github("projects_v2_item", item, "archived", "created", "deleted", "edited", "reordered")},
		{delta, github("installation", app, "created", "deleted", "suspend", "unsuspend", "new_permissions_accepted")},
		{delta, github("a_new_event", issue, "edited")},
		{snapshot, stripe("subscription", "customer.subscription.updated")},
		{snapshot, stripe("charge", "charge.updated", "charge.dispute.updated")},
		{delta, stripe("subscription", "customer.subscription.created", "customer.subscription.deleted", "customer.subscription.paused",
			"customer.subscription.pending_update_applied", "customer.subscription.trial_will_end")},
		{delta, stripe("charge", "charge.succeeded", "charge.failed", "charge.refunded", "charge.captured")},
		{delta, stripe("invoice", "invoice.paid", "invoice.payment_failed", "invoice.finalized", "invoice.upcoming")},
		{delta, stripe("payment_method", "payment_method.automatically_updated", "payment_method.attached")},
		{delta, stripe("terminal.reader", "terminal.reader.action_updated")},
	} {
		for _, e := range tt.events {
			if e.Payload != tt.want {
				t.Errorf("%s is a %s, want %s", e.Type, e.Payload, tt.want)
			}
		}
	}
}

// TestPayloadOfTheSource: what a source says of its events holds for all of them.
func TestPayloadOfTheSource(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"snapshot", "delta"} {
		s := compile(t, provider.Config{Preset: "stripe", Event: &provider.EventConfig{Payload: kind}})
		for _, typ := range []string{"charge.updated", "charge.succeeded"} {
			e, err := s.Event(request(`{"id":"e","type":"`+typ+`","created":1677834420,"data":{"object":{"object":"charge","id":"x"}}}`), received)
			if err != nil || string(e.Payload) != kind {
				t.Errorf("%s with payload: %s: %+v %v", typ, kind, e, err)
			}
		}
	}
}
