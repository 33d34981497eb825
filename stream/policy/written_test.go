package policy

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// TestWritten: what is open of an action that the file does not have never goes on. It waits for a file that has it, and is dead in the end, each by its
// own time.
func TestWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &Written{Actions: []string{"run"}}
		if v, err := g.Before(t.Context(), deploy()); v.Status != "" || err != nil {
			t.Errorf("one that the file has: %+v %v", v, err)
		}
		gone, later := deploy(), deploy()
		gone.Name, later.Name, later.ID = "stop", "stop", "act_2"
		waits := func() {
			t.Helper()
			if v, err := g.Before(t.Context(), later); v.Status != "" || err == nil {
				t.Errorf("asked for just now: %+v %v", v, err)
			}
		}
		if v, err := g.Before(t.Context(), gone); v.Status != "" || err == nil || !strings.Contains(err.Error(), "no action stop of acme.ship") {
			t.Errorf("asked for first: %+v %v", v, err)
		}
		time.Sleep(NewerFile - time.Second)
		waits()
		time.Sleep(time.Second)
		if v, err := g.Before(t.Context(), gone); v.Status != ledger.Dead || v.Reason != Removed || err != nil {
			t.Errorf("after %s: %+v %v", NewerFile, v, err)
		}
		waits()
	})
}
