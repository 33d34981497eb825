package schemas

import "testing"

func TestCheckRequest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		by, reason string
		want       Kind
	}{{"eve", "mended", ""}, {"", "mended", Invalid}, {"eve", "", Invalid}, {"", "", Invalid}} {
		if got := KindOf(CheckRequest("pause", test.by, test.reason)); got != test.want {
			t.Errorf("by %q, reason %q: %q, want %q", test.by, test.reason, got, test.want)
		}
	}
}
