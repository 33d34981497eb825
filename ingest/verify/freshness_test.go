package verify

import (
	"testing"
	"time"
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
