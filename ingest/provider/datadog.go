package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(datadog())

// datadog: the webhooks integration, with its default payload. It has the id of an event, but not that of the monitor: add "alert_id":
// "$ALERT_ID" to the payload, and all events of a monitor are one entity; "aggreg_key": "$AGGREG_KEY" is taken, too. A payload of one's own
// needs an `event:`. Times are Unix milliseconds as text.
//
// Datadog signs nothing: give the hook a custom header {"Authorization": "Bearer ..."}. It waits 15 s, and repeats after 5xx.
// Sources: https://docs.datadoghq.com/integrations/webhooks.
func datadog() preset {
	return preset{
		name: "datadog", title: "Datadog",
		verify:  verify.Params{Scheme: verify.SchemeToken, Header: "Authorization", Prefix: "Bearer "},
		maxBody: 1 << 20, deadline: 15 * time.Second,
		retries: "5 after 5xx or a timeout", retryHorizon: time.Hour,
		prefix: "com.datadog.", names: []string{},
		fallback: mapping{
			id:     "/id",
			typ:    []string{"/event_type"},
			title:  "/title",
			entity: []string{"/org/id?", "alert:{/alert_id}|aggregation:{/aggreg_key}|/id"},
			clocks: []clock{{from: "/last_updated|/date?", kind: schemas.Timestamp, resolution: time.Millisecond}},
		},
	}
}
