package verify_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// TestSecretsExpire: a secret verifies until its end and not from then on, unless a signature beside its own is by another; the number of the
// secret stays that of the file, and what is signed here is signed with one that is taken.
func TestSecretsExpire(t *testing.T) {
	t.Parallel()
	params := verify.Params{Scheme: verify.SchemeStandardWebhooks}
	text := func(s string) schemas.Secret { return schemas.NewSecret("whsec_" + strings.Repeat(s, 32)) }
	secrets := []schemas.Secret{text("a"), text("b"), text("c")}
	end := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	scheme, err := verify.NewExpiring(params, secrets, verify.Around{}, []time.Time{end, {}, end.Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	sign := func(secret schemas.Secret, now time.Time) http.Header {
		by, err := verify.New(params, []schemas.Secret{secret})
		r := verify.Request{Header: http.Header{"Webhook-Id": {"m1"}}, Body: []byte("{}")}
		if err == nil {
			err = by.Sign(&r, now)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.Header
	}
	verified := func(h http.Header, now time.Time) (int, error) {
		r := verify.Request{Header: h, Body: []byte("{}")}
		err := scheme.Verify(&r, now)
		return r.Secret, err
	}
	for _, tt := range []struct {
		secret, want int // 0: refused
		now          time.Time
	}{
		{1, 1, end.Add(-time.Second)}, {2, 2, end.Add(-time.Second)}, {3, 0, end.Add(-time.Second)}, {3, 3, end.Add(-2 * time.Hour)},
		{1, 0, end}, {2, 2, end}, {3, 0, end},
	} {
		got, err := verified(sign(secrets[tt.secret-1], tt.now), tt.now)
		if got != tt.want || (err == nil) != (tt.want > 0) {
			t.Errorf("secret %d at %s: verified with %d, want %d (%v)", tt.secret, tt.now, got, tt.want, err)
		}
		if e, ok := errors.AsType[*verify.Error](err); err != nil && (!ok || e.Reason != verify.Mismatch) {
			t.Errorf("secret %d at %s: %v", tt.secret, tt.now, err)
		}
	}
	both := sign(secrets[0], end)
	both.Set("Webhook-Signature", both.Get("Webhook-Signature")+" "+sign(secrets[1], end).Get("Webhook-Signature"))
	if got, err := verified(both, end); got != 2 || err != nil {
		t.Errorf("signed with both: verified with %d (%v)", got, err)
	}
	r := verify.Request{Header: http.Header{"Webhook-Id": {"m1"}}, Body: []byte("{}")}
	if err := scheme.Sign(&r, end); err != nil {
		t.Fatal(err)
	}
	if got, err := verified(r.Header, end); got != 2 || err != nil {
		t.Errorf("what it signs itself: verified with %d (%v)", got, err)
	}
	gone, err := verify.NewExpiring(params, secrets[:1], verify.Around{}, []time.Time{end})
	if err != nil {
		t.Fatal(err)
	}
	last := verify.Request{Header: sign(secrets[0], end), Body: []byte("{}")}
	if err := gone.Verify(&last, end); err == nil {
		t.Error("the only secret has expired, and verifies")
	}
}
