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
	"github.com/forebay-io/forebay/ingest/verify"
)

// An hour between the sender's clock and this machine's has every delivery with a time refused. The sender is told no more than a forger
// is; the operator is told that the signatures are right, how far the times are off and what to look at, until one is in time again.
func TestClockAnHourOff(t *testing.T) {
	t.Parallel()
	const off = -time.Hour // ahead is told alike
	r := deploy(t, "http://127.0.0.1:1", nil, false)
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
	p := r.run(config.RoleIntake)

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
	const reason = "too_old"
	for why, want := range map[string]float64{reason: 30 + 2*unmatchedAfter, "mismatch": 30} {
		if got, _ := counted(t, p.app.registry, "forebay_ingest_deliveries_total", map[string]string{"source": "stripe", "outcome": "refused", "reason": why}); got != want {
			t.Errorf("%v deliveries are counted as %s, want %v", got, why, want)
		}
	}
	rows := p.waiting(api.KindClock)
	if len(rows) != 1 || rows[0].ID != "acme/stripe" || rows[0].Reason != reason || rows[0].Since == nil || !strings.HasPrefix(rows[0].Detail, "31 deliveries ") {
		t.Fatalf("%+v", rows)
	}
	if got := said.String(); !strings.Contains(got, `msg="waits for an operator" kind=wrong_clock id=acme/stripe`) ||
		!strings.Contains(got, "outcome=refused team=acme source=stripe reason="+reason) {
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
}

// signedAt sends a delivery that is signed at a time, with a secret, and returns the status of the answer.
func (p *process) signedAt(source, secret string, number int, at time.Time) int {
	p.t.Helper()
	d := &verify.Request{Method: http.MethodPost, Header: http.Header{},
		Body: fmt.Appendf(nil, `{"id":"evt_%d","object":"event","type":"charge.succeeded","created":1767225600,"order":"o","data":{"object":{"id":"ch_1","object":"charge"}}}`, number)}
	status, _ := p.postAt(source, secret, d, at)
	return status
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
