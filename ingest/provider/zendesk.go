package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(zendesk())

// zendesk: a hook that subscribes to events of Zendesk. An entity is its `subject` (zen:ticket:123), and `time` its clock; each event says what
// happened. Types lose what they all begin with: zen:event-type:ticket.created is com.zendesk.ticket.created.
//
// The body of a trigger or an automation is what its author wrote: a source for it says where id, type and entity are (`event:`). Its hook
// signs alike. Zendesk waits 12 s, and repeats 3 times after 409, 5 times after a timeout.
// Sources: https://developer.zendesk.com/documentation/webhooks/verifying, https://developer.zendesk.com/api-reference/webhooks/event-types/webhook-event-types, webhookx-io/webhookx test/plugins.
func zendesk() preset {
	return preset{
		name: "zendesk", title: "Zendesk",
		verify: verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Zendesk-Webhook-Signature", Encoding: "base64",
			TimestampHeader: "X-Zendesk-Webhook-Signature-Timestamp", TimestampUnit: "rfc3339", Signed: "{timestamp}{body}"},
		maxBody: 1 << 20, deadline: 12 * time.Second,
		retries: "3 after 409, and after 429 and 503 with Retry-After below 60s; 5 after a timeout", retryHorizon: time.Hour,
		prefix: "com.zendesk.", names: []string{"zen:event-type:", ""},
		says:    []string{"ticket.comment*"},
		headers: []string{"x-zendesk-webhook-id", "x-zendesk-webhook-invocation-id", "x-zendesk-account-id"},
		fallback: mapping{
			id:     "/id",
			typ:    []string{"/type"},
			entity: []string{"/account_id?", "/subject"},
			sender: sender{id: "/detail/actor_id", automation: &condition{from: "/detail/actor_id", is: []string{"-1"}}}, // Zendesk itself
			title:  "/detail/subject|/detail/title|/detail/name",
			clocks: []clock{{from: "/time", kind: schemas.Timestamp, resolution: time.Millisecond}},
			deleted: &condition{from: "/type", is: []string{"zen:event-type:ticket.permanently_deleted", "zen:event-type:user.deleted", "zen:event-type:user.permanently_deleted",
				"zen:event-type:organization.deleted"}},
		},
	}
}
