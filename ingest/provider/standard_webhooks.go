package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(standardWebhooks())

// standardWebhooks: the specification gives an id and, by convention, a `type`, which is taken verbatim: its senders
// already have names of their own ("invoice.paid"). It says nothing about entities or order, so all events of the
// source have one entity, and run one after the other, unless the source's own mapping says more.
//
// Sources: https://github.com/standard-webhooks/standard-webhooks (spec, libraries).
func standardWebhooks() preset {
	return preset{
		name: "standard-webhooks", title: "Standard Webhooks (and Svix)",
		verify:  verify.Params{Scheme: verify.SchemeStandardWebhooks},
		maxBody: 1 << 20, deadline: 15 * time.Second, deadlineNote: "the specification recommends 15 to 30s; senders differ",
		retries: "the specification recommends 9, the last of them after 76 h; Svix ends after 28 h", retryHorizon: 76 * time.Hour,
		headers:  []string{"webhook-id", "webhook-timestamp", "svix-id", "svix-timestamp"},
		fallback: mapping{id: "header:webhook-id|header:svix-id", typ: []string{"/type"}},
	}
}
