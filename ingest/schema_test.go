package ingest

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

// Whether a body fits never changes what the sender is told. A misfit is taken and told, or kept byte for byte in quarantine.
func TestBodiesAreHeldAgainstSchemas(t *testing.T) {
	t.Parallel()
	const (
		order   = `{"id":"1","type":"order.paid","order":"o","rev":1,"total":5}`
		misfit  = `{"id":"2","type":"order.paid","order":"o","rev":2,"total":"five pounds"}`
		schema  = `{"$id":"https://example.com/order","properties":{"total":{"type":"integer"}}}`
		problem = "/total is a string, not an integer"
	)
	large := `{"id":"3","type":"order.paid","order":"o","rev":3,"note":"` + strings.Repeat("x", jsonschema.MaxBody) + `"}`
	for check, want := range map[string][3]string{
		"off":        {"", "accepted ", "accepted "},
		"warn":       {"https://example.com/order", "accepted schema_misfit", "accepted schema_unchecked"},
		"quarantine": {"https://example.com/order", "quarantined schema_misfit", "accepted schema_unchecked"},
	} {
		t.Run(check, func(t *testing.T) {
			t.Parallel()
			in := setup(t, func(c *Config, s *Source) { c.MaxBody, s.MaxBody = 2<<20, 2<<20 })
			cfg := ordersMapping
			cfg.MaxBody, cfg.Schema = 2<<20, provider.SchemaConfig{Check: check, Own: schema}
			in.preset(cfg)
			for i, body := range []string{order, misfit, large} {
				if a := in.signed([]byte(body)); a.status != 202 {
					t.Fatalf("body %d: answered %d %s", i, a.status, a.body)
				}
			}
			if got := in.log.events[0].DataSchema; got != want[0] {
				t.Errorf("dataschema of what fits: %q", got)
			}
			for _, e := range in.log.events[1:] {
				if e.DataSchema != "" {
					t.Errorf("%s says that it fits %s", e.ID, e.DataSchema)
				}
			}
			if kept := len(in.log.deliveries) == 1 && string(in.log.deliveries[0].Body) == misfit && in.log.deliveries[0].Detail == "the body "+problem; kept != (check == "quarantine") {
				t.Errorf("kept: %+v", in.log.deliveries)
			}
			count := func(way string) float64 {
				outcome, reason, _ := strings.Cut(way, " ")
				return testutil.ToFloat64(in.handler.metrics.deliveries.WithLabelValues("acme", "orders", outcome, reason))
			}
			if want[1] == want[2] {
				want[1] = "" // counted with what fits
				if n := count(want[2]); n != 3 {
					t.Errorf("%s: %v", want[2], n)
				}
				return
			}
			for _, way := range append(want[1:], "accepted ") {
				if n := count(way); n != 1 {
					t.Errorf("%s: %v", way, n)
				}
			}
			lines := in.lines.String()
			if !strings.Contains(lines, "level=WARN") || !strings.Contains(lines, problem) || strings.Contains(lines, "pounds") {
				t.Errorf("the log:\n%s", lines)
			}
		})
	}
}
