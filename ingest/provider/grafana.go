package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(grafana())

// grafana: a webhook contact point of Grafana's alerting. An entity is a group of alerts, and its status the type. No time tells two
// notifications of a group apart, so they go as they arrive. As long as the group fires, Grafana sends it again every repeat interval; where
// nothing in it has changed, that is the same body, and one event.
//
// The contact point's HMAC signature is of the body; with a timestamp header it covers `timestamp:body`, and the source says so: `verify:
// {timestamp_header: X-..., signed: "{timestamp}:{body}"}`. A Grafana before 12 has a token only: `verify: {scheme: token, header:
// Authorization, prefix: "Bearer "}`.
// Sources: https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier, grafana/alerting http/hmac.go.
func grafana() preset {
	p := alerts("com.grafana.alert.")
	p.name, p.title = "grafana", "Grafana alerting"
	p.verify = verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "X-Grafana-Alerting-Signature"}
	return p
}

// alerts is the webhook that Grafana has from Alertmanager.
func alerts(prefix string) preset {
	return preset{
		maxBody: 4 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: the receiver's settings may say otherwise",
		retries: "after 5xx until the group's next notification", retryHorizon: 4 * time.Hour,
		prefix:  prefix,
		repeats: []Repeat{{"firing", ""}},
		fallback: mapping{id: "sha256:body", typ: []string{"/status"}, entity: []string{"/groupKey"},
			title: "/commonAnnotations/summary|/title|/commonLabels/alertname"},
	}
}
