package policy

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
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
		g.Unfit = func(a sink.Action) error {
			if a.Destination == "acme/deploy" {
				return nil
			}
			return errors.New("params.text means nothing there")
		}
		if v, err := g.Before(t.Context(), deploy()); v.Status != "" || err != nil {
			t.Errorf("one that fits: %+v %v", v, err)
		}
		moved := deploy()
		moved.Destination, moved.ID = "acme/old", "act_3"
		if v, err := g.Before(t.Context(), moved); v.Status != "" || err == nil || !strings.Contains(err.Error(), "for old (it goes elsewhere now: params.text means") {
			t.Errorf("with parameters of another destination: %+v %v", v, err)
		}
		time.Sleep(NewerFile)
		if v, err := g.Before(t.Context(), moved); v.Status != ledger.Dead || v.Reason != Removed || err != nil {
			t.Errorf("with parameters of another destination, after %s: %+v %v", NewerFile, v, err)
		}
	})
}
