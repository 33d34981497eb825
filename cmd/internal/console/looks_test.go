package console

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
)

// TestLooksAreShared: those that look for the same at about the same time ask once; who looks for something else, further back or with other
// rights, asks; what failed is asked again.
func TestLooksAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, fails := 0, error(nil)
		l := &looks{every: time.Second, found: map[string]*found{}, ask: func(context.Context, api.InboxFilter) (api.Page[api.InboxItem], error) {
			asked++
			time.Sleep(100 * time.Millisecond)
			return api.Page[api.InboxItem]{Next: "x"}, fails
		}}
		look := func(ctx context.Context, f api.InboxFilter, want int) {
			t.Helper()
			if page, err := l.items(ctx, f); err != nil || page.Next != "x" || asked != want {
				t.Errorf("asked %d times, want %d: %+v %v", asked, want, page, err)
			}
		}
		f := api.InboxFilter{Team: "acme", Since: time.Now()}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { _, _ = l.items(t.Context(), f) })
		}
		all.Wait()
		look(t.Context(), f, 1)
		f.Since = f.Since.Add(time.Second)
		time.Sleep(1800 * time.Millisecond) // less than 20 times what the look took
		look(t.Context(), f, 1)
		further := f
		further.Since = f.Since.Add(-time.Minute)
		look(t.Context(), further, 2)
		look(t.Context(), api.InboxFilter{Team: "pay", Since: f.Since}, 3)
		acme := api.As(t.Context(), &access.Who{Role: "viewer", Teams: []string{"acme"}})
		look(acme, f, 4)
		time.Sleep(2 * time.Second)
		look(acme, f, 5)
		time.Sleep(2 * time.Second)
		fails = errors.New("away")
		if _, err := l.items(acme, f); err == nil {
			t.Error("an error is not told")
		}
		fails = nil
		look(acme, f, 7)
		ended, cancel := context.WithCancel(acme)
		cancel()
		k := l.of(acme, f)
		k.turn <- struct{}{}
		if _, err := l.items(ended, f); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-k.turn
	})
}
