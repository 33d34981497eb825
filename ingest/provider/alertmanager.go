package provider

import "github.com/forebay-io/forebay/ingest/verify"

var _ = register(alertmanager())

// alertmanager: the webhook receiver of Prometheus' Alertmanager; see grafana. It signs nothing and proves itself by http_config: a bearer
// token, or basic authentication, of which the source's secret is base64("user:password"): `verify: {header: Authorization, prefix:
// "Basic "}`.
// Sources: https://prometheus.io/docs/alerting/latest/configuration/#webhook_config, prometheus/alertmanager notify/webhook/webhook.go.
func alertmanager() preset {
	p := alerts("io.prometheus.alert.")
	p.name, p.title = "alertmanager", "Prometheus Alertmanager"
	p.takes = "any 2xx (prometheus/alertmanager notify/util.go)"
	p.verify = verify.Params{Scheme: verify.SchemeToken, Header: "Authorization", Prefix: "Bearer "}
	return p
}
