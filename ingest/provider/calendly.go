package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(calendly())

// calendly: an entity is an invitee's booking. Who reschedules cancels one and makes another, which name each other. That somebody did not
// show up is told of the invitee. All events say what happened.
//
// No id is on the wire, so it is made of the body, which has the event's time in microseconds.
// Sources: https://developer.calendly.com/api-docs/ZG9jOjM2MzE2MDM4-webhook-signatures, https://developer.calendly.com/receive-data-from-scheduled-events-in-real-time-with-webhook-subscriptions,
// https://developer.calendly.com/api-docs/overview/webhooks/webhook-errors.
func calendly() preset {
	return preset{
		name: "calendly", title: "Calendly",
		verify: verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "Calendly-Webhook-Signature", Field: "v1", TimestampField: "t",
			Signed: "{timestamp}.{body}"},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: Calendly does not say",
		takes:   "any 2xx (https://community.calendly.com, Developer FAQ: why am I not receiving webhook data)",
		retries: "for 24 h at growing distances, or until 24 h behind the booked time; then the subscription is disabled, if another delivery has failed, too", retryHorizon: day,
		prefix: "com.calendly.",
		fallback: mapping{id: "sha256:body", typ: []string{"/event"}, entity: []string{"/payload/invitee|/payload/uri?"}, clocks: micros("/created_at", "event"),
			title: "/payload/scheduled_event/name|/payload/name"},
	}
}
