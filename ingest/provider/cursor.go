package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(cursor())

// cursor: an entity is a cloud agent, of which Cursor says that it has finished or failed. An agent may go on after that and finish again.
//
// The id of a delivery is in a header that is not signed: the event's is the body's hash. Its time is in it.
// Sources: https://cursor.com/docs/cloud-agent/api/webhooks, hookdeck/webhook-samples providers/cursor.
func cursor() preset {
	return preset{
		name: "cursor", title: "Cursor",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Webhook-Signature", Prefix: "sha256="},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: Cursor does not say",
		retries: "some, after errors; for how long is not said, a day is assumed", retryHorizon: day,
		prefix:   "com.cursor.",
		delivery: "header:X-Webhook-ID",
		headers:  []string{"x-webhook-id", "x-webhook-event"},
		fallback: mapping{id: "sha256:body", typ: []string{"/event"}, entity: []string{"/id?"}, clocks: millis("/timestamp", ""), title: "/name|/summary|/target/branchName"},
	}
}
