package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(svix())

// svix is for whoever sends through Svix and has no preset of its own. Svix signs as Standard Webhooks say, under its own names of headers or
// under theirs. Types are taken verbatim. What bodies have is the sender's: all of its events are one entity, unless the source's own mapping
// says more. Svix's own events, about an endpoint or a message of an application, name what they are about.
//
// Sources: https://docs.svix.com/receiving/verifying-payloads/how-manual, https://docs.svix.com/retries, https://docs.svix.com/incoming-webhooks, svix/svix-webhooks server/svix-server/src/worker.rs and go/models.
func svix() preset {
	endpoint := mapping{entity: []string{"/data/appId?", "/data/endpointId?"}}
	message := mapping{entity: []string{"/data/appId?", "/data/msgId?"}}
	return preset{
		name: "svix", title: "Svix",
		verify:  verify.Params{Scheme: verify.SchemeStandardWebhooks},
		maxBody: 1 << 20, deadline: 15 * time.Second,
		retries: "7: after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h; by hand later", retryHorizon: 28 * time.Hour,
		headers:  []string{"svix-id", "svix-timestamp", "webhook-id", "webhook-timestamp"},
		fallback: mapping{id: "header:webhook-id|header:svix-id", typ: []string{"/type"}},
		selects:  []string{"/type"},
		rules: map[string]mapping{
			"endpoint.created": endpoint, "endpoint.updated": endpoint, "endpoint.disabled": endpoint, "endpoint.enabled": endpoint,
			"endpoint.deleted":          {entity: endpoint.entity, deleted: &condition{from: "/type", is: []string{"endpoint.deleted"}}},
			"message.attempt.exhausted": message, "message.attempt.failing": message, "message.attempt.recovered": message,
		},
	}
}
