package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(pagerduty())

// pagerduty: webhooks of version 3. An entity is an incident or a service; a note, a responder and a status update belong to their incident.
// Each event says what happened, at `occurred_at`, which is the only clock; a service that is updated is restated.
//
// The header may have several signatures while a secret is changed. No time is signed. PagerDuty says nothing exact of its deadline, and
// gives up on an endpoint that answers 4xx.
// Sources: https://developer.pagerduty.com/docs/webhooks-overview and webhook-signatures, PagerDuty/go-pagerduty webhookv3.
func pagerduty() preset {
	return preset{
		name: "pagerduty", title: "PagerDuty",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-PagerDuty-Signature", Prefix: "v1=", Separator: ","},
		maxBody: 1 << 20, deadline: 5 * time.Second, deadlineNote: "a guess: PagerDuty says none",
		retries: "for up to 48 h, at growing distances", retryHorizon: 2 * day,
		prefix:  "com.pagerduty.",
		headers: []string{"x-webhook-id", "x-webhook-subscription"},
		fallback: mapping{
			id:        "/event/id",
			typ:       []string{"/event/event_type"},
			entity:    []string{"/event/data/incident/id|/event/data/id?"}, // a ping has neither
			clocks:    []clock{{from: "/event/occurred_at", kind: schemas.Timestamp, resolution: time.Millisecond}},
			snapshots: &condition{from: "/event/event_type", is: []string{"service.updated"}},
			deleted:   &condition{from: "/event/event_type", is: []string{"service.deleted"}},
			sender: sender{id: "/event/agent/id", login: "/event/agent/summary",
				automation: &condition{from: "/event/agent/type", there: true, unless: &condition{from: "/event/agent/type", is: []string{"user_reference"}}}},
			title: "/event/data/title|/event/data/incident/summary|/event/data/summary",
		},
	}
}
