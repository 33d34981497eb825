package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// standardWebhooks: the specification gives an id and, by convention, a `type`, which is taken verbatim: its senders
// already have names of their own ("invoice.paid"). It says nothing about entities or order, so all events of the
// source stand in one line unless the source says more.
func standardWebhooks() preset {
	return preset{
		name: "standard-webhooks", title: "Standard Webhooks (and Svix)",
		verify:  verify.Params{Scheme: verify.SchemeStandardWebhooks},
		maxBody: 1 << 20, deadline: 15 * time.Second,
		headers:  []string{"webhook-id", "webhook-timestamp", "svix-id", "svix-timestamp"},
		fallback: mapping{id: "header:webhook-id|header:svix-id", typ: []string{"/type"}, payload: schemas.Delta},
	}
}

// generic has no facts of its own: the source's `verify:` and `event:` say everything.
func generic() preset {
	return preset{
		name: "generic", title: "Generic HMAC",
		verify:  verify.Params{Scheme: verify.SchemeHMAC},
		maxBody: 1 << 20, deadline: 10 * time.Second,
		fallback: mapping{payload: schemas.Delta},
	}
}
