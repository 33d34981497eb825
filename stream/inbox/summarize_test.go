package inbox

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

func TestSummariesAreDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s summaries
		due := func(want ...int32) {
			t.Helper()
			if got := s.due(scope{3, 4}, time.Now()); !slices.Equal(got, want) {
				t.Errorf("due are %v, want %v", got, want)
			}
		}
		due(3, 4)
		due()
		time.Sleep(summarizeEvery + 1)
		due(3, 4)
		s.failed(t.Context(), 3)
		time.Sleep(summarizeEvery + 1)
		due(4)
		time.Sleep(summarizeFailed + 1)
		due(3, 4)
		if time.Sleep(summarizeFailed); len(s.due(scope{5}, time.Now())) != 1 || len(s.next) != 1 {
			t.Errorf("windows that nobody lists are kept: %v", s.next)
		}
	})
}

// currentWindow returns the window that the subscription writes to.
func (f *fixture) currentWindow(subscription string) int32 {
	return one[int32](f, `SELECT w.id FROM windows w JOIN subscriptions s ON s.id = w.subscription WHERE s.name = '`+subscription+`' AND w.state = 'current'`)
}

// One window that cannot be summarized does not cost the others their summaries.
func TestOneWindowFails(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, other := range []string{"acme.gone", "acme.other"} {
		f.n = f.namespace(func(s *ledger.Spec) { s.Name = other })
		f.apply(f.claim(0), seq(0, "e", 1))
	}
	vacuumed, gone, other := f.currentWindow("acme.triage"), f.currentWindow("acme.gone"), f.currentWindow("acme.other")
	f.exec(ledger.OfWindow(gone, `DROP TABLE events_w{w}`))
	holder := f.connect()
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), ledger.OfWindow(vacuumed, `LOCK TABLE events_w{w} IN SHARE UPDATE EXCLUSIVE MODE`)); err != nil {
		t.Fatal(err)
	}
	f.summarize(t.Context(), scope{vacuumed, gone, other})
	if left := one[int32](f, ledger.OfWindow(other, `SELECT brin_summarize_new_values('events_w{w}_decided')`)); left != 0 {
		t.Error("the window without trouble was not summarized")
	}
	if due := f.summaries.due(scope{vacuumed, gone, other}, time.Now().Add(summarizeEvery+time.Second)); !slices.Equal(due, []int32{gone, other}) {
		t.Errorf("due next are %v, want %v", due, []int32{gone, other})
	}
}

// A list does not wait for a VACUUM of what it lists, nor fail, and leaves the index alone for a while.
func TestListBesideAVacuum(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1))
	window := f.currentWindow("acme.triage")
	tx, err := f.eye.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), ledger.OfWindow(window, `LOCK TABLE events_w{w} IN SHARE UPDATE EXCLUSIVE MODE`)); err != nil { // VACUUM's
		t.Fatal(err)
	}
	if p, err := f.List(t.Context(), Query{}); err != nil || len(p.Items) != 1 {
		t.Errorf("%d items: %v", len(p.Items), err)
	}
	if due := f.summaries.due(scope{window}, time.Now().Add(summarizeFailed/2)); due != nil {
		t.Error("it is tried again at once")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	f.summaries.next = nil
	f.summarize(gone, scope{window})
	if due := f.summaries.due(scope{window}, time.Now().Add(summarizeEvery+time.Second)); len(due) != 1 {
		t.Error("who goes away in between has the others wait for a minute")
	}
}
