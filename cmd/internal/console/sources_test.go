package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

func TestSources(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.sources = append(f.sources, api.SourceItem{Team: "pay", Source: "stripe", URL: "https://hooks.example.com/v1/in/pay/stripe"})
	f.sources[0].Keys, f.sources[0].Seen.Mismatches, f.sources[0].Seen.MismatchedAt = 2, 6, &at
	f.attention.Items = append(f.attention.Items, api.AttentionItem{Kind: api.KindKeys, ID: "acme/orders", Team: "acme", Source: "orders", Reason: "no_match", Command: "forebay sources list"})
	registry := prometheus.NewRegistry()
	came := prometheus.NewCounterVec(prometheus.CounterOpts{Name: deliveriesMetric}, []string{"team", "source", "outcome", "reason"})
	registry.MustRegister(came)
	came.WithLabelValues("acme", "orders", "accepted", "").Add(41)
	came.WithLabelValues("acme", "orders", "unauthenticated", "no_match").Add(6)
	came.WithLabelValues("acme", "orders", "unauthenticated", "too_old").Add(3)
	came.WithLabelValues("acme", "orders", "quarantined", "no_entity").Add(2)
	came.WithLabelValues("pay", "stripe", "unauthenticated", "malformed").Add(1)
	cfg := f.config()
	cfg.Gatherer = registry
	c := pagesOf(t, cfg)
	s := get(t, c, "/console/sources")
	s.says("tr", "pay/stripe", "https://hooks.example.com/v1/in/pay/stripe", "not known: this process has no intake role")
	if s := get(t, c, "/console/sources?team=acme"); strings.Contains(text(s.root), "stripe") {
		t.Error("the filter does not hold")
	}
	s = get(t, c, s.link("acme/orders"))
	s.says("div", "Webhook URL", "/v1/in/acme/orders")
	s.says("div", "Secrets", "6 signatures match none of them")
	s.says("div", "Age of secrets", "secret 1: in this process since", "for 41 deliveries; secret 2: in this process since", "used for nothing")
	s.says("div", "Skew", "the last 8 deliveries were signed -2.5s to 1.0s before they came", "the sender's is ahead of ours")
	s.says("li", "unmatched_keys", "no_match", "forebay sources list")
	s.says("tr", "accepted", "all", "41")
	s.says("tr", "unauthenticated", "all", "9")
	s.says("tr", "not taken", "no_match", "6")
	s.says("tr", "in quarantine", "no_entity", "2")
	s.says("tr", "/order/total", "kind", "number", "string")
	s.says("p", "Too few bodies yet of order.paid.")
	if strings.Contains(text(s.root), "malformed") {
		t.Error("another source's refusals are shown")
	}
	if s := get(t, c, "/console/sources/acme/order"); s.status != http.StatusNotFound {
		t.Errorf("no such source: %d", s.status)
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, "/console/schemas?type=com.github.issues")
	s.says("tr", "acme/orders", "/order/total", "kind")
	s.says("p", "2 event types were seen since this process began; of 1 of them too few bodies for a comparison.")
	if strings.Contains(text(s.root), "stripe") {
		t.Error("the filter does not hold")
	}
	get(t, h, s.link("com.github.issues")).says("pre", `"$schema"`)
	if s := get(t, h, "/console/schemas/com.github.nothing-of-that-name"); s.status != http.StatusNotFound {
		t.Errorf("no such schema: %d", s.status)
	}
	s = get(t, f.handler(t, func(c *api.Config) { c.Drift = nil }), "/console/schemas")
	s.says("p", "This part cannot be had: this process has no intake role", "ask one that runs `forebay serve --roles intake`")
	s.says("caption", " of ")
}

func TestAudit(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := f.handler(t, nil)
	s := get(t, h, "/console/audit?team=acme&actor=ada&action=dlq.replay&object=act_1&since=2026-11-23T08:00:00Z&limit=3&cursor=abc")
	want := api.AuditFilter{Team: "acme", Actor: "ada", Action: "dlq.replay", Object: "act_1", Since: at.Add(-3600e9), Limit: 3, Cursor: "abc"}
	if f.auditFilter != want {
		t.Errorf("asked for %+v", f.auditFilter)
	}
	s.says("tr", "ada (operator)", "says ada@ops", "dlq.replay", "acme: act_1", "mended", "done", `"status": "dead_letter"`)
	s.says("tr", "loopback", "subscription.seek", "refused", "nothing was moved")
	if next := s.link("Next page"); !strings.Contains(next, "cursor=cursor%3D%3D") || !strings.Contains(next, "actor=ada") {
		t.Errorf("the next page is %s", next)
	}
	if s := get(t, h, "/console/audit?since=yesterday"); s.status != http.StatusBadRequest {
		t.Errorf("since yesterday: %d", s.status)
	}
	f.err = schemas.Errorf(schemas.Unavailable, "ask Postgres", "connection refused")
	if s := get(t, h, "/console/audit"); s.status != http.StatusServiceUnavailable {
		t.Errorf("no ledger: %d", s.status)
	}
}
