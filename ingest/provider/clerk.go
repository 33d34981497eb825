package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(clerk())

// clerk: an entity is an object (a user, a session, an organization, a membership), and `*.updated` has the whole of it. Newer bodies have the
// time of the event, older ones only that of the object. A deleted object has nothing but its id.
//
// Clerk sends through Svix.
// Sources: https://clerk.com/docs/webhooks/overview, https://clerk.com/docs/guides/development/webhooks/syncing, https://docs.svix.com/retries.
func clerk() preset {
	return preset{
		name: "clerk", title: "Clerk",
		verify:  verify.Params{Scheme: verify.SchemeStandardWebhooks, HeaderPrefix: "svix-"},
		maxBody: 1 << 20, deadline: 15 * time.Second,
		retries: "7: after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h; by hand later", retryHorizon: 28 * time.Hour,
		prefix:  "com.clerk.",
		headers: []string{"svix-id", "svix-timestamp"},
		fallback: mapping{
			id: "header:svix-id", typ: []string{"/type"}, entity: []string{"/data/id?"},
			clocks: []clock{
				{from: "/timestamp?", kind: schemas.Timestamp, name: "event", resolution: time.Millisecond},
				{from: "/data/updated_at?", kind: schemas.Timestamp, name: "object", resolution: time.Millisecond},
			},
			snapshots: &condition{from: "/type", suffix: ".updated"},
			deleted:   &condition{from: "/type", suffix: ".deleted"},
			title:     "/data/name|/data/username|/data/email_addresses/0/email_address|/data/organization/name",
		},
	}
}
