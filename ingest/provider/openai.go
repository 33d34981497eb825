package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(openai())

// openai: an event only names what has come to an end, a response, a batch, a job or a run, and the agent asks for it by its id. So
// all are deltas, and what has the same id has an order of its own. A call that comes in has a call_id instead.
//
// OpenAI takes a redirect for a failure. A secret that is no whsec_ text is its bytes (key_encoding: text). The deadline is a guess.
// Sources: https://platform.openai.com/docs/guides/webhooks, openai/openai-python src/openai/lib/_webhooks.py and tests/lib, openai/openai-go webhooks.
func openai() preset {
	return preset{
		name: "openai", title: "OpenAI",
		verify:  verify.Params{Scheme: verify.SchemeStandardWebhooks, HeaderPrefix: "webhook-"},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: OpenAI says no more than a few seconds",
		retries: "for 72 h, at growing distances", retryHorizon: 3 * day,
		prefix:   "com.openai.",
		headers:  []string{"webhook-id", "webhook-timestamp"},
		fallback: mapping{id: "header:webhook-id", typ: []string{"/type"}, entity: []string{"/data/id|/data/call_id?"}, clocks: seconds("/created_at", "")},
	}
}
