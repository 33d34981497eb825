package provider

import "testing"

// What nobody sends again by itself is lost with a 429 or a 503.
func TestRepeatsItself(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"github": false, "generic": false, "stripe": true, "slack": true, "standard-webhooks": true} {
		if info, ok := Lookup(name); !ok || info.RepeatsItself() != want {
			t.Errorf("%s: %t, want %t (retries: %s)", name, info.RepeatsItself(), want, info.Retries)
		}
	}
}
