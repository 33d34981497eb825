package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(mailgun())

// mailgun: an entity is a message, and its events have times with fractions of seconds; each says what happened.
//
// Mailgun signs a time and a random token, and not the event: a token counts for five minutes, and for one body. It repeats for up to 8 h, and not
// after a 406.
// Sources: https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/webhooks, https://documentation.mailgun.com/docs/mailgun/user-manual/events,
// mailgun/mailgun-php tests/Api/WebhookTest.php.
func mailgun() preset {
	return preset{
		name: "mailgun", title: "Mailgun",
		verify:  verify.Params{Scheme: verify.SchemeMailgun},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: Mailgun does not say",
		takes:    "200 alone (https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/webhook-retries)",
		accepted: plainOK,
		retries:  "7: after 5, 10, 15 and 30 min, 1, 2 and 4 h", retryHorizon: 8 * time.Hour,
		prefix: "com.mailgun.",
		fallback: mapping{
			id: "/event-data/id", typ: []string{"/event-data/event"}, entity: []string{"/event-data/message/headers/message-id|/event-data/recipient?"},
			clocks: micros("/event-data/timestamp", ""), volatile: []string{"/signature"},
			title: "/event-data/message/headers/subject|/event-data/recipient",
		},
	}
}
