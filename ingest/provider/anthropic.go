package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(anthropic())

// anthropic: an event of a managed agent only names the session, run, agent or vault that it is about, whose state the agent asks for. So
// all are deltas. The body's id is the same in every attempt and in each endpoint.
//
// Both SDKs verify the headers of Standard Webhooks, the documentation also names X-Webhook-Signature: what is really sent was not seen. About 20 failures in
// a row disable an endpoint.
// Sources: https://platform.claude.com/docs/en/managed-agents/webhooks, anthropics/anthropic-sdk-go betawebhook.go, anthropics/anthropic-sdk-python tests/api_resources/beta/test_webhooks.py.
func anthropic() preset {
	return preset{
		name: "anthropic", title: "Anthropic",
		verify:  verify.Params{Scheme: verify.SchemeStandardWebhooks},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: Anthropic says no more than a few seconds",
		takes:   "any 2xx (https://platform.claude.com/docs/en/managed-agents/webhooks)",
		retries: "a few; for how long is not said, a day is assumed", retryHorizon: day,
		prefix:  "com.anthropic.",
		headers: []string{"webhook-id", "webhook-timestamp"},
		fallback: mapping{id: "/id", typ: []string{"/data/type"}, entity: []string{"/data/organization_id?", "/data/id?"}, clocks: seconds("/created_at", ""),
			deleted: &condition{from: "/data/type", suffix: ".deleted"}},
	}
}
