package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(agent())

// agent: another program posts one event as JSON: id, type, entity, and version and title if it likes. Its header Idempotency-Key, where there is one, is the
// id. An id is unique among those of its agent. An entity is what the agent names it, so that several agents can speak of one thing in one order;
// each has a version line of its own there, and makes nothing of another's stale. What is said is a delta: `event.payload: snapshot` says otherwise.
//
// An agent proves itself with its own key (`forebay agents create`), which is for some sources and types, or with a JWT of an issuer
// (verify.scheme: jwt, jwks_url, issuer), whose sub is its name, and whose event_types, if it has any, are its types. Neither signs what it says.
// Its headers say which agents led to it (loop).
// Sources: https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header, RFC 6750, RFC 7519.
func agent() preset {
	return preset{
		name: "agent", title: "Another agent",
		verify:  verify.Params{Scheme: verify.SchemeAgentKey},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "the agent's",
		retries: "as the agent does; a day is assumed", retryHorizon: day,
		chain: true,
		fallback: mapping{
			scope: callerName, id: "header:Idempotency-Key|/id", typ: []string{"/type"}, entity: []string{"/entity"},
			clocks: []clock{{from: "/version?", kind: schemas.Monotonic, name: "agent", by: callerName}},
			sender: sender{id: callerName, automation: &condition{from: callerName, there: true}},
			title:  "/title",
		},
	}
}
