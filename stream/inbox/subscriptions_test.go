package inbox

import (
	"testing"
	"time"
)

// What came to a topic after its last owner had gone was not the subscription's, however late somebody finds that it was left.
func TestLeftUntilItsOwnerWent(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1))
	f.exec(`UPDATE progress SET updated_at = now() - interval '3 weeks'`) // paused since
	if err := f.n.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, ago := range []time.Duration{0, 14 * 24 * time.Hour} {
		f.exec(`UPDATE progress SET updated_at = updated_at - $1::interval`, ago)
		f.exec(`UPDATE fences SET claimed_at = claimed_at - $1::interval`, ago)
		f.exec(`UPDATE topics SET left_at = now()`)
		list, err := f.Owned(t.Context())
		if err != nil || len(list) != 1 || list[0].Left == nil {
			t.Fatalf("%+v %v", list, err)
		}
		if since := time.Since(*list[0].Left); since < ago || since > ago+5*time.Minute {
			t.Errorf("released %s ago, and left %s ago", ago, since)
		}
	}
}
