package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(calCom())

// cal.com: an entity is a booking, by its uid. Who reschedules makes another booking, which names the old one. Each event says what
// happened. The times of a meeting's start and end have the booking at the top instead of in the payload, and what is created there is the booking: they
// go as they arrive.
//
// No id is on the wire: it is the body's hash, with the time at which the event was made.
// Sources: https://cal.com/docs/developing/guides/automation/webhooks, calcom/cal.com packages/features/webhooks/lib/sendPayload.ts.
func calCom() preset {
	meeting := mapping{entity: []string{"/uid?"}, title: "/title"}
	return preset{
		name: "cal-com", title: "Cal.com",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Cal-Signature-256"},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: Cal.com does not say",
		retries: "of bookings none; an hour is assumed for what Cal.com sends from its queue", retryHorizon: time.Hour,
		prefix: "com.cal.", names: []string{},
		selects: []string{"/triggerEvent"},
		fallback: mapping{id: "sha256:body", typ: []string{"/triggerEvent"}, entity: []string{"/payload/uid|/payload/formId?"}, clocks: millis("/createdAt?", ""),
			title: "/payload/title|/payload/formName"},
		rules: map[string]mapping{"MEETING_STARTED": meeting, "MEETING_ENDED": meeting},
	}
}
