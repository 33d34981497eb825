package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// An hour between the sender's clock and this machine's has every delivery with a time refused. The sender is told no more than a forger
// is; the operator is told that the signatures are right, how far the times are off and what to look at, until one is in time again.
func TestClockAnHourOff(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := deploy(t, "http://127.0.0.1:1", "", false)
			r.text = strings.Replace(r.text, "    sources:\n", `    sources:
      stripe: {preset: stripe, secrets: [whsec_of_stripe]}
      stamped:
        preset: generic
        secrets: [stamped-secret]
        verify: {signature_header: X-Signature, timestamp_header: X-Time, signed: "{timestamp}.{body}"}
        event: {id: /id, type: /type, entity: [/order]}
`, 1)
			r.createTopics()
			var said lockedBuffer
			r.log = slog.New(slog.NewTextHandler(&said, nil))
			p := r.start(config.RoleIntake)
			p.ready()

			// One delivery that somebody sends again and again is no clock's fault.
			old := time.Now().Add(off - time.Minute)
			for range 2 * unmatchedAfter {
				p.signedAt("stripe", "whsec_of_stripe", 0, old)
			}
			if rows := p.waiting(api.KindClock); len(rows) != 0 {
				t.Fatalf("one captured delivery makes %+v", rows)
			}
			later := func(i int) time.Time { return old.Add(time.Duration(i+1) * time.Second) } // times of signing have whole seconds
			for i := range 30 {
				if got := p.signedAt("stripe", "whsec_of_stripe", i, later(i)); got != http.StatusUnauthorized {
					t.Fatalf("delivery %d was answered %d", i, got)
				}
				p.signedAt("stripe", "a forger's", i, time.Now().Add(off)) // says nothing of clocks
				p.signedAt("orders", "a forger's", i, time.Now())
			}
			reason, where := "too_old", " behind this machine's clock, where 5m0s is allowed"
			if off > 0 {
				reason, where = "too_new", " ahead of this machine's clock, where 5m0s is allowed"
			}
			for counted, want := range map[string]float64{reason: 30 + 2*unmatchedAfter, "mismatch": 30} {
				if got := p.deliveries("stripe", "refused", counted); got != want {
					t.Errorf("%v deliveries are counted as %s, want %v", got, counted, want)
				}
			}
			rows := p.waiting(api.KindClock)
			if len(rows) != 1 || rows[0].ID != "acme/stripe" || rows[0].Reason != reason || rows[0].Since == nil ||
				!strings.Contains(rows[0].Detail, "31 deliveries with a right signature, each signed later than the one before, were refused") ||
				!strings.Contains(rows[0].Detail, "this machine's clock (`date -u`, and whether NTP runs) and the sender's") {
				t.Fatalf("%+v", rows)
			}
			if got := said.String(); !strings.Contains(got, `msg="waits for an operator" kind=wrong_clock id=acme/stripe`) ||
				!strings.Contains(got, "outcome=refused team=acme source=stripe reason="+reason) || !strings.Contains(got, where) {
				t.Errorf("the log has:\n%s", got)
			}

			// Of two senders, both clocks are not wrong alike.
			for i := range 5 {
				p.signedAt("stamped", "stamped-secret", i, later(i))
			}
			if rows := p.waiting(api.KindClock); len(rows) != 2 || !strings.Contains(rows[0].Detail, "2 sources show the same: check this machine's clock first") {
				t.Errorf("%+v", rows)
			}
			// What is kept back on the way is no clock's fault.
			p.signedAt("stamped", "stamped-secret", 6, later(600))
			if rows := p.waiting(api.KindClock); !strings.Contains(fmt.Sprint(rows), "they differ, so no clock alone is wrong") {
				t.Errorf("%+v", rows)
			}
			for source, secret := range map[string]string{"stripe": "whsec_of_stripe", "stamped": "stamped-secret"} {
				if got := p.signedAt(source, secret, 7, time.Now()); got != http.StatusAccepted {
					t.Errorf("the clock is right again, and %s is answered %d", source, got)
				}
			}
			if rows := p.waiting(api.KindClock); len(rows) != 0 {
				t.Errorf("it is over, and still waits: %+v", rows)
			}
			p.clean()
		})
	}
}

// signedAt sends a delivery that is signed at a time, with a secret, and returns the status of the answer.
func (p *process) signedAt(source, secret string, number int, at time.Time) int {
	p.t.Helper()
	cfg := p.app.file().Source("acme", source)
	cfg.Secrets = []schemas.Secret{schemas.NewSecret(secret)}
	compiled, err := provider.Compile(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	d := &verify.Request{Method: http.MethodPost, Header: http.Header{},
		Body: fmt.Appendf(nil, `{"id":"evt_%d","object":"event","type":"charge.succeeded","created":1767225600,"order":"o","data":{"object":{"id":"ch_1","object":"charge"}}}`, number)}
	if err := compiled.Sign(d, at); err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), d.Method, "http://"+p.app.Addr("intake").String()+"/v1/in/acme/"+source, strings.NewReader(string(d.Body)))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header = d.Header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// deliveries returns how many deliveries of a source have come to an end for a reason.
func (p *process) deliveries(source, outcome, reason string) float64 {
	p.t.Helper()
	families, err := p.app.registry.Gather()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "forebay_ingest_deliveries_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["source"] == source && labels["outcome"] == outcome && labels["reason"] == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// waiting returns what of a kind waits for an operator now.
func (p *process) waiting(kind string) []api.AttentionItem {
	p.t.Helper()
	if _, err := p.app.waits.look(p.t.Context(), 0); err != nil {
		p.t.Fatal(err)
	}
	out, err := p.api.Attention(p.t.Context(), api.AttentionFilter{Kind: kind, Limit: 20})
	if err != nil {
		p.t.Fatal(err)
	}
	return out.Items
}
