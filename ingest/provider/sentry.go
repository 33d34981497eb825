package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(sentry())

// sentry: an entity is an issue; its errors, the alerts that they set off, comments, and what Seer finds out belong to it. An issue's clock is when
// it was last seen, which a person who resolves it does not move: what has the same time is neither older nor newer. A metric alert is its own entity.
//
// The signature covers the body and nothing else: not the timestamp, not the id, not Sentry-Hook-Resource, so the body must have the
// fields of the resource. An issue that is resolved, reopened and resolved again with no error in between has the same body twice.
// Sentry waits 1 s, never repeats, and ends the subscription after 1000 timeouts in a day.
// Sources: https://docs.sentry.io/organization/integrations/integration-platform/webhooks.
func sentry() preset {
	micros := func(from, name string) clock {
		return clock{from: from, kind: schemas.Timestamp, name: name, resolution: time.Microsecond}
	}
	return preset{
		name: "sentry", title: "Sentry",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "Sentry-Hook-Signature"},
		maxBody: 4 << 20, deadline: time.Second,
		retries: "none, also not by hand", retryHorizon: time.Minute,
		prefix:  "io.sentry.",
		selects: []string{"header:Sentry-Hook-Resource"},
		fields: map[string]fields{
			"issue":        {has: []string{"/data/issue"}, lacks: []string{"/data/comment_id"}},
			"error":        {has: []string{"/data/error"}},
			"comment":      {has: []string{"/data/comment_id", "/data/issue_id"}},
			"event_alert":  {has: []string{"/data/event", "/data/triggered_rule"}},
			"metric_alert": {has: []string{"/data/metric_alert"}},
			"installation": {has: []string{"/data/installation"}},
		},
		delivery: "header:Request-ID",
		headers:  []string{"sentry-hook-resource", "sentry-hook-timestamp", "request-id"},
		repeats:  []Repeat{{"issue", ""}, {"metric_alert", ""}},
		fallback: mapping{id: "sha256:body", typ: []string{"header:Sentry-Hook-Resource", "/action"},
			entity: []string{"/data/issue/id|/data/issue_id|/data/group_id|installation:{/installation/uuid}?"},
			sender: sender{id: "/actor/id", login: "/actor/name", automation: &condition{from: "/actor/type", is: []string{"application"}}},
			title:  "/data/issue/title|/data/error/title|/data/event/title|/data/metric_alert/title|/data/metric_alert/alert_rule/name"},
		rules: map[string]mapping{
			"issue":        {entity: []string{"/data/issue/id"}, clocks: []clock{micros("/data/issue/lastSeen?", "issue")}},
			"error":        {entity: []string{"/data/error/issue_id"}},
			"comment":      {entity: []string{"/data/issue_id"}, clocks: []clock{micros("/data/timestamp?", "comment").each("/data/comment_id").ends("/action", "deleted")}},
			"event_alert":  {entity: []string{"/data/event/issue_id"}},
			"metric_alert": {entity: []string{"metric_alert:{/data/metric_alert/id}"}},
			"installation": {entity: []string{"installation:{/data/installation/uuid}"}, deleted: &condition{from: "/action", is: []string{"deleted"}}},
		},
	}
}
