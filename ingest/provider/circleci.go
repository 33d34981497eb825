package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(circleci())

// circleci: an entity is a workflow, whose jobs belong to it. CircleCI tells only what has ended, so all is a delta, and job-completed of one
// job does not make that of another late: each has a clock of its own. A test ping has no workflow.
//
// The id is in the body. The header lists versions of signatures, of which v1 is the only one. CircleCI waits 5 s.
// Sources: https://circleci.com/docs/guides/integration/outbound-webhooks, https://circleci.com/docs/reference/outbound-webhooks-reference.
func circleci() preset {
	at := func(name, by string) []clock {
		return []clock{{from: "/happened_at", kind: schemas.Timestamp, name: name, by: by, resolution: time.Microsecond}}
	}
	return preset{
		name: "circleci", title: "CircleCI",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "circleci-signature", Prefix: "v1=", Separator: ","},
		maxBody: 1 << 20, deadline: 5 * time.Second,
		retries: "some, at times that CircleCI does not say", retryHorizon: day,
		prefix:  "com.circleci.",
		selects: []string{"/type"},
		headers: []string{"circleci-event-type"},
		fallback: mapping{id: "/id", typ: []string{"/type"}, entity: []string{"/workflow/id|project:{/project/id}?"},
			sender: sender{id: "/pipeline/trigger_parameters/circleci/actor_id"}, title: "/workflow/name"},
		rules: map[string]mapping{
			"workflow-completed": {entity: []string{"/workflow/id"}, clocks: at("workflow", "")},
			"job-completed":      {entity: []string{"/workflow/id"}, clocks: at("job", "/job/id")},
		},
	}
}
