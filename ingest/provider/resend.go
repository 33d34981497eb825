package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(resend())

// resend: an entity is an email, whose events say what happened to it, or a domain or a contact, of which `*.updated` has the whole. The
// event's time is their clock; the email's own (data.created_at) is that of its sending, in all of its events.
//
// Resend sends through Svix.
// Sources: https://resend.com/docs/webhooks/introduction, https://resend.com/docs/webhooks/retries-and-replays, https://docs.svix.com/retries.
func resend() preset {
	return preset{
		name: "resend", title: "Resend",
		verify:  verify.Params{Scheme: verify.SchemeStandardWebhooks, HeaderPrefix: "svix-"},
		maxBody: 1 << 20, deadline: 15 * time.Second,
		retries: "7: after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h; by hand later", retryHorizon: 28 * time.Hour,
		prefix:  "com.resend.",
		headers: []string{"svix-id", "svix-timestamp"},
		fallback: mapping{
			id: "header:svix-id", typ: []string{"/type"}, entity: []string{"/data/email_id|/data/id?"}, clocks: millis("/created_at", ""),
			snapshots: &condition{from: "/type", suffix: ".updated"},
			deleted:   &condition{from: "/type", suffix: ".deleted"},
			title:     "/data/subject|/data/name|/data/email",
		},
	}
}
