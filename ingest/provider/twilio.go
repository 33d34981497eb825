package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(twilio())

// twilio: an entity is a message, a call or a conference of an account. The statuses of a message have an order and no time; those of a call or
// a conference are numbered, from 0, and those that were not asked for leave holes. A status is told once, and all are deltas. A recording is its call's.
//
// A message that came in has its own id; of a status the id is the whole form, as there are several of one message. Nothing stands between the
// names and values that are signed, so whoever has one delivery could move a border: what is named is in the fields that Twilio knows.
// Twilio waits 15 s for the answer, and tries once more, unless the URL's fragment (#rc=) says otherwise.
// Sources: https://www.twilio.com/docs/usage/webhooks, https://www.twilio.com/docs/messaging/guides/track-outbound-message-status,
// https://www.twilio.com/docs/voice/api/call-resource, twilio/twilio-python twilio/request_validator.py.
func twilio() preset {
	const what = "message.{form:MessageStatus}|conference.{form:StatusCallbackEvent}|call.{form:CallStatus}|message.{form:SmsStatus}|recording.{form:RecordingStatus}"
	statuses := []string{"accepted", "scheduled", "queued", "sending", "sent", "receiving", "received", "delivered", "undelivered", "failed", "canceled", "read"}
	entity := []string{"form:AccountSid", "form:MessageSid|form:ConferenceSid|form:CallSid|form:SmsSid?"}
	rules := map[string]mapping{"message.received": {id: "form:MessageSid", typ: []string{"=message", "=inbound"}, entity: entity}}
	for _, status := range statuses {
		if name := "message." + status; rules[name].id == "" {
			rules[name] = mapping{entity: entity, clocks: []clock{{from: "=1", kind: schemas.Monotonic, name: "status", rank: &rank{from: "form:MessageStatus", order: statuses}}}}
		}
	}
	return preset{
		name: "twilio", title: "Twilio",
		verify:  verify.Params{Scheme: verify.SchemeTwilio},
		maxBody: 1 << 20, deadline: 15 * time.Second,
		retries: "1, or as the URL's fragment says", retryHorizon: time.Minute,
		prefix:      "com.twilio.",
		selects:     []string{what + "?"},
		emptyAnswer: true, // another body would be read as TwiML
		headers:     []string{"i-twilio-idempotency-token"},
		rules:       rules,
		fallback: mapping{
			id: "sha256:body", typ: []string{what}, entity: entity,
			clocks: []clock{{from: "form:SequenceNumber?", kind: schemas.Monotonic, name: "progress"}},
			sender: sender{id: "form:From", login: "form:From"},
			title:  "form:Body|form:FriendlyName",
		},
	}
}
