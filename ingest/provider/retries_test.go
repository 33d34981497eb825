package provider

import (
	"testing"

	"github.com/forebay-io/forebay/ingest/verify"
)

// What nobody sends again by itself is lost with a 429 or a 503.
func TestRepeatsItself(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"github": false, "generic": false, "stripe": true, "slack": true, "standard-webhooks": true} {
		if info, ok := Lookup(name); !ok || info.RepeatsItself() != want {
			t.Errorf("%s: %t, want %t (retries: %s)", name, info.RepeatsItself(), want, info.Retries)
		}
	}
}

// TestRetriesAreFresh: where what is sent again has the time of the first attempt, or nobody knows whether it has, the last retry is taken, too.
func TestRetriesAreFresh(t *testing.T) {
	t.Parallel()
	held := map[string]bool{}
	for _, info := range Presets() {
		switch {
		case info.Verify.TimestampPointer != "", info.Scheme == verify.SchemeSNS, info.Scheme == verify.SchemeSendGrid, info.Name == "discord":
			if held[info.Name] = true; info.Tolerance <= info.RetryHorizon {
				t.Errorf("%s takes what is %s old, and its last retry is %s", info.Name, info.Tolerance.Std(), info.RetryHorizon.Std())
			}
		}
	}
	if !held["linear"] || !held["sns"] || !held["sendgrid"] || !held["discord"] {
		t.Errorf("held are %v", held)
	}
}
