package verify

import (
	"net/http"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// TestTheTimeOfSigningIsHandedOn only of what is right and fresh.
func TestTheTimeOfSigningIsHandedOn(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	var r Request
	if fresh(&r, now.Add(-time.Hour), time.Minute, now, nil) == nil || fresh(&r, now, time.Minute, now, refuse(Mismatch, "")) == nil || !r.SignedAt.IsZero() {
		t.Errorf("of what is refused: %v", r.SignedAt)
	}
	if err := fresh(&r, now.Add(-3*time.Second), time.Minute, now, nil); err != nil || !r.SignedAt.Equal(now.Add(-3*time.Second)) {
		t.Errorf("%v %v", err, r.SignedAt)
	}
}

// TestSigningStampsTheBody: where the time of signing is in the body, a delivery that is signed now has now in it, in the provider's unit.
func TestSigningStampsTheBody(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1751388322391)
	for body, want := range map[string]string{
		`{"a":1,"at":7 ,"b":2}`: `{"a":1,"at":1751388322391 ,"b":2}`,
		`{"at":"7"}`:            `{"at":"1751388322391"}`,
		`{"at":null}`:           `{"at":null}`,
		`{}`:                    `{}`,
		`no JSON`:               `no JSON`,
	} {
		s, err := New(Params{SignatureHeader: "X-S", TimestampPointer: "/at", TimestampUnit: "ms"}, []schemas.Secret{schemas.NewSecret("k")})
		if err != nil {
			t.Fatal(err)
		}
		sample := []byte(body)
		r := &Request{Method: "POST", Header: http.Header{}, Body: sample}
		if err := s.Sign(r, now); err != nil || string(r.Body) != want || string(sample) != body {
			t.Errorf("%s became %s, of %s: %v", body, r.Body, sample, err)
		}
		if err := s.Verify(r, now); (err == nil) != (want != body) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
