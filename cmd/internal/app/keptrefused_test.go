package app

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// kept waits until so many refused deliveries of a source are in quarantine, the oldest first.
func (p *process) kept(source string, n int) []api.QuarantineItem {
	p.t.Helper()
	var page api.Page[api.QuarantineItem]
	var err error
	if !rig.Until(time.Minute, func() bool {
		page, err = p.api.Quarantined(p.t.Context(), api.QuarantineFilter{Team: "acme", Source: source, Kind: "refused"})
		return err == nil && len(page.Items) == n
	}) {
		p.t.Fatalf("never %d refused deliveries: %+v, %v", n, page, err)
	}
	for i := range n / 2 {
		page.Items[i], page.Items[n-1-i] = page.Items[n-1-i], page.Items[i]
	}
	return page.Items
}

func (p *process) redrive(i api.QuarantineItem, r api.QuarantineRedrive) (*api.QuarantineRedriven, error) {
	r.Reason, r.By = "the secret is mended", "me"
	return p.api.RedriveQuarantined(p.t.Context(), api.QuarantinePlace{Team: i.Team, Source: i.Source, Partition: i.Partition, Offset: i.Offset}, r)
}

// TestWrongSecretLosesNothing: a secret is wrong in production, what is refused is kept, the secret is mended, and all of it acts once, in
// order; but not what a stranger has sent meanwhile.
func TestWrongSecretLosesNothing(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	r := deploy(t, a.URL, newLedger(t), true)
	r.text = strings.Replace(r.text, "preset: generic", "preset: generic\n        keep_refused: {most: 5}", 1)
	mended := strings.Replace(r.text, "secrets: [orders-secret]", "secrets: [orders-secret, true-secret]", 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	for rev := range 3 {
		d := order("o-1", rev+1)
		d.Header.Set("Authorization", "Bearer tok-1")
		if status := p.send("orders", "true-secret", d); status != 401 {
			t.Fatalf("answered %d", status)
		}
		p.kept("orders", rev+1)
	}
	if status := p.send("orders", "forged-secret", order("o-1", 4)); status != 401 {
		t.Fatalf("answered %d", status)
	}
	kept := p.kept("orders", 4)
	unusable := order("o-2", 1)
	unusable.Body = []byte("not json")
	p.accepted("orders", "orders-secret", unusable)
	for _, i := range kept {
		if i.Kind != "refused" || i.Reason != "mismatch" || !strings.Contains(i.Detail, "X-Signature") || i.Redriven != nil {
			t.Errorf("%+v", i)
		}
		if _, err := p.redrive(i, api.QuarantineRedrive{}); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), "it still does not verify: mismatch") || !strings.Contains(err.Error(), "--discard") {
			t.Errorf("redriven by the wrong secret: %v", err)
		}
	}
	// They are not the team's dead data: the one that was acknowledged waits for an operator, alone.
	var page *api.Attention
	if !rig.Until(time.Minute, func() bool {
		var err error
		page, err = p.api.Attention(t.Context(), api.AttentionFilter{Team: "acme", Kind: api.KindQuarantinedDelivery})
		return err == nil && len(page.Items) > 0
	}) || len(page.Items) != 1 || page.Items[0].Reason != "not_json" || page.Counts[0].Count != 1 {
		t.Fatalf("%+v", page)
	}
	if list, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Kind: "unusable"}); err != nil || len(list.Items) != 1 || list.Items[0].Reason != "not_json" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{}); err != nil || len(list.Items) != 5 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Kind: "lost"}); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("an unknown kind: %v", err)
	}

	r.text = mended
	r.reload(p, config.RoleIntake, config.RoleStream)
	for n, i := range kept[:3] {
		planned, err := p.redrive(i, api.QuarantineRedrive{DryRun: true})
		if err != nil || planned.State != api.StatePlanned || planned.EventID != fmt.Sprintf("o-1-%d", n+1) {
			t.Fatalf("dry run: %+v, %v", planned, err)
		}
		if done, err := p.redrive(i, api.QuarantineRedrive{}); err != nil || done.State != api.StateDone || done.Note != "" {
			t.Fatalf("redrive: %+v, %v", done, err)
		}
		if _, err := p.redrive(i, api.QuarantineRedrive{}); schemas.KindOf(err) != schemas.Conflict {
			t.Errorf("redriven twice: %v", err)
		}
	}
	if _, err := p.redrive(kept[3], api.QuarantineRedrive{}); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), "it still does not verify: mismatch") {
		t.Errorf("a forged one: %v", err)
	}
	if done, err := p.redrive(kept[3], api.QuarantineRedrive{Discard: true}); err != nil || done.State != api.StateDone {
		t.Errorf("discard: %+v, %v", done, err)
	}
	p.accepted("orders", "true-secret", order("o-1", 3)) // the provider sends one again all the same
	p.accepted("orders", "true-secret", order("o-1", 4))
	calls := a.wait(t, 4)
	for n, c := range calls {
		if c.ID != fmt.Sprintf("o-1-%d", n+1) {
			t.Errorf("call %d is %s", n, c.ID)
		}
	}
	p.repeated("fulfil", "orders", "o-1-3", 1)
	if d, err := p.api.Item(t.Context(), "acme", "fulfil", "orders", "o-1-1"); err != nil || !strings.Contains(fmt.Sprint(d.Story), "verified with secret 2 of its source") {
		t.Errorf("%+v, %v", d, err)
	}
	// Within most, which a reload of the secrets does not fill.
	for range 2 {
		if status := p.send("orders", "forged-secret", order("o-9", 1)); status != 401 {
			t.Fatalf("answered %d", status)
		}
	}
	p.kept("orders", 5)
	if n, _ := counted(t, p.app.registry, "forebay_ingest_refused_kept_total", map[string]string{"result": "left_out"}); n != 1 {
		t.Errorf("%v were left out", n)
	}
	p.clean()
}

// TestOverQuotaIsKept: what a provider does not send again is kept when it is over the rate, and redriven without its signature: it was
// authentic.
func TestOverQuotaIsKept(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "secrets: [first-secret]}", "secrets: [first-secret], keep_refused: {}, rate: {limit: 1, per: 24h}}", 1)
	p := r.run(config.RoleIntake)
	_, first := issue(1, 1)
	p.accepted("github", "first-secret", first)
	id, second := issue(1, 2)
	if status := p.send("github", "first-secret", second); status != http.StatusTooManyRequests {
		t.Fatalf("answered %d", status)
	}
	kept := p.kept("github", 1)[0]
	if kept.Reason != "throttled" || kept.Detail != "over the rate of the source" {
		t.Errorf("%+v", kept)
	}
	r.text = strings.Replace(r.text, "first-secret", "next-secret", 1)
	r.reload(p, config.RoleIntake)
	if done, err := p.redrive(kept, api.QuarantineRedrive{}); err != nil || done.EventID != id || done.State != api.StateDone {
		t.Errorf("%+v, %v", done, err)
	}
	p.clean()
}

// TestVerifiedAsOfItsReceipt: of a delivery that was too old when it came, the tolerance of today decides; one that was in time then is still.
func TestVerifiedAsOfItsReceipt(t *testing.T) {
	t.Parallel()
	source := func(preset, secret string, v *verify.Params) *ingest.Source {
		compiled, err := provider.Compile(provider.Config{Team: "acme", Name: "hooks", Preset: preset, Secrets: []schemas.Secret{schemas.NewSecret(secret)}, Verify: v})
		if err != nil {
			t.Fatal(err)
		}
		return &ingest.Source{Source: compiled}
	}
	const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	received := time.Now().Add(-72 * time.Hour)
	kept := func(signedBefore time.Duration, s *ingest.Source, body string) *producer.Item {
		r := verify.Request{Method: "POST", Header: http.Header{}, Body: []byte(body)}
		if err := s.Sign(&r, received.Add(-signedBefore)); err != nil {
			t.Fatal(err)
		}
		d := ingest.Delivery{Kind: ingest.KindRefused, Reason: "mismatch", Method: r.Method, Body: r.Body, Received: received}
		for name, values := range r.Header {
			d.Headers = append(d.Headers, schemas.Header{Name: strings.ToLower(name), Value: values[0]})
		}
		return &producer.Item{Delivery: d}
	}
	std := source("standard-webhooks", secret, nil)
	patient := source("standard-webhooks", secret, &verify.Params{Tolerance: 2 * time.Hour})
	other := source("standard-webhooks", "whsec_"+strings.Repeat("QUJD", 8), nil)
	slack := source("slack", "slack-secret", nil)
	for name, tt := range map[string]struct {
		with *ingest.Source
		kept *producer.Item
		says string
	}{
		"in time when it came":               {std, kept(time.Minute, std, "{}"), ""},
		"too old when it came":               {std, kept(time.Hour, std, "{}"), "it still does not verify, at the time at which it came: too_old"},
		"too old, and the tolerance is more": {patient, kept(time.Hour, std, "{}"), ""},
		"another secret":                     {other, kept(time.Minute, std, "{}"), "it still does not verify: mismatch"},
		"a handshake":                        {slack, kept(time.Minute, slack, `{"type":"url_verification","challenge":"c"}`), "it is a handshake of the provider"},
	} {
		err := verifyAgain(tt.with, tt.kept)
		if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || schemas.KindOf(err) != schemas.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && tt.kept.Secret != 1 {
			t.Errorf("%s: secret %d", name, tt.kept.Secret)
		}
		if _, ok := errors.AsType[*verify.Error](err); err != nil && !ok && name != "a handshake" {
			t.Errorf("%s: the reason is lost: %v", name, err)
		}
	}
}

// TestOnlyOverARateIsAuthentic: what is kept as throttled for anything but a rate has shown no signature, and has to.
func TestOnlyOverARateIsAuthentic(t *testing.T) {
	t.Parallel()
	compiled, err := provider.Compile(provider.Config{Team: "acme", Name: "hooks", Preset: "generic", Secrets: []schemas.Secret{schemas.NewSecret("secret")},
		Verify: &verify.Params{SignatureHeader: "X-Signature"}, Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{}}})
	if err != nil {
		t.Fatal(err)
	}
	for over, authentic := range map[string]bool{"source": true, "team": true, "address_bytes": false, "address_connections": false} {
		kept := &producer.Item{Delivery: ingest.Delivery{Kind: ingest.KindRefused, Reason: ingest.ReasonThrottled, Detail: "over the rate of the " + over, Method: "POST",
			Body: []byte(`{"id":"1","type":"t"}`), Received: time.Now()}}
		if err := verifyAgain(&ingest.Source{Source: compiled}, kept); (err == nil) != authentic {
			t.Errorf("%s: %v", over, err)
		}
	}
}

// TestCompressedIsVerifiedAgain: what came compressed, and could not be unpacked because it was more than the source took, is an event once the
// source takes more.
func TestCompressedIsVerifiedAgain(t *testing.T) {
	t.Parallel()
	text := []byte(`{"id":"1","type":"t","note":"` + strings.Repeat("a", 100<<10) + `"}`)
	for maxBody, says := range map[int64]string{64 << 10: "raise max_body", 1 << 20: ""} {
		compiled, err := provider.Compile(provider.Config{Team: "acme", Name: "hooks", Preset: "generic", Secrets: []schemas.Secret{schemas.NewSecret("secret")}, MaxBody: maxBody,
			Verify: &verify.Params{SignatureHeader: "X-Signature", Unpacked: true}, Event: &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{}}})
		if err != nil {
			t.Fatal(err)
		}
		r := verify.Request{Method: "POST", Header: http.Header{}, Body: text}
		if err := compiled.Sign(&r, time.Now()); err != nil {
			t.Fatal(err)
		}
		kept := &producer.Item{Delivery: ingest.Delivery{Kind: ingest.KindRefused, Reason: "malformed", Method: r.Method, Body: zip(string(text)), Received: time.Now(),
			Headers: []schemas.Header{{Name: "x-signature", Value: r.Header.Get("X-Signature")}}}}
		source := &ingest.Source{Source: compiled}
		if err := verifyAgain(source, kept); says != "" {
			if schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), says) {
				t.Errorf("max_body %d: %v", maxBody, err)
			}
			continue
		} else if err != nil {
			t.Fatalf("max_body %d: %v", maxBody, err)
		}
		if events, _, err := eventsOf(source, kept); err != nil || len(events) != 1 || !bytes.Equal(events[0].Data, text) {
			t.Errorf("%d events, %v", len(events), err)
		}
	}
}

// TestCompressedEnvelopeIsRedriven: CloudEvents that came compressed, and were more than the source took, are events once it takes more.
func TestCompressedEnvelopeIsRedriven(t *testing.T) {
	t.Parallel()
	event := `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":"` + strings.Repeat("a", 100<<10) + `"}`
	for mode, text := range map[string]string{"application/cloudevents+json": event, "application/cloudevents-batch+json": "[" + event + "]"} {
		for maxBody, want := range map[int64]int{64 << 10: 0, 1 << 20: 1} {
			compiled, err := provider.Compile(provider.Config{Team: "acme", Name: "hooks", Preset: "cloudevents", Secrets: []schemas.Secret{schemas.NewSecret("secret")}, MaxBody: maxBody})
			if err != nil {
				t.Fatal(err)
			}
			kept := &producer.Item{Delivery: ingest.Delivery{Kind: ingest.KindUnusable, Method: "POST", Body: zip(text), Received: time.Now(), Headers: []schemas.Header{{Name: "content-type", Value: mode}}}}
			if events, _, err := eventsOf(&ingest.Source{Source: compiled}, kept); len(events) != want || (err == nil) != (want > 0) {
				t.Errorf("%s, max_body %d: %d events, %v", mode, maxBody, len(events), err)
			}
		}
	}
}

func zip(text string) []byte {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return packed.Bytes()
}
