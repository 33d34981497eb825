package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(hubspot())

// hubspot: a delivery is a list of events, each of one object of an account. Objects of all kinds are numbered together, and an event has the
// time at which it happened. A changed property is in that event only, so all are deltas.
//
// eventId may come twice, so the id is made of the element, without the number of the attempt. HubSpot waits 5 s, and repeats ten times within 24 h.
// It signs the URL, too, unless verify.version is v1.
// Sources: https://developers.hubspot.com/docs/api-reference/webhooks-webhooks-v3/guide, HubSpot/hubspot-api-nodejs src/services/http/Signature.ts.
func hubspot() preset {
	return preset{
		name: "hubspot", title: "HubSpot",
		verify:  verify.Params{Scheme: verify.SchemeHubSpot},
		maxBody: 1 << 20, deadline: 5 * time.Second,
		retries: "10 within 24 h", retryHorizon: day,
		prefix: "com.hubspot.", each: WholeBody,
		fallback: mapping{
			id: "sha256:body", typ: []string{"/subscriptionType"}, entity: []string{"/portalId", "/objectId|/fromObjectId?"}, clocks: millis("/occurredAt", ""),
			deleted: &condition{from: "/subscriptionType", suffix: ".deletion"}, volatile: []string{"/attemptNumber"},
			sender: sender{id: "/sourceId", automation: &condition{from: "/changeSource", is: []string{"API", "INTEGRATION", "AUTOMATION_PLATFORM", "WORKFLOWS"}}},
		},
	}
}
