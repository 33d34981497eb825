package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(sendgrid())

// sendgrid: a delivery is a list of events, each of one recipient of a message; an entity is the message, which is what stands before the first
// dot of sg_message_id. Events come in any order, with whole seconds; each says what happened.
//
// The time and the body are signed, with a key of SendGrid's; enter the public one as the secret. How long it waits is not said; it repeats
// for up to 24 h, and whether it signs anew is not known, so the time may be as old.
// Sources: https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event, sendgrid/sendgrid-go helpers/eventwebhook.
func sendgrid() preset {
	return preset{
		name: "sendgrid", title: "SendGrid",
		verify:  verify.Params{Scheme: verify.SchemeSendGrid, Tolerance: 25 * time.Hour},
		maxBody: 2 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: SendGrid does not say",
		retries: "for up to 24 h", retryHorizon: day,
		prefix: "com.sendgrid.", each: WholeBody,
		fallback: mapping{
			id: "/sg_event_id", typ: []string{"/event"}, entity: []string{"/sg_message_id^.|/smtp-id|/email?"}, clocks: seconds("/timestamp", ""),
			title: "/subject|/email",
		},
	}
}
