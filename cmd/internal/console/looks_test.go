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

// TestLooksAreShared: those that look for the same at about the same time ask once, and each row is rendered once; who looks for something else, further back or with other
// rights, asks; what failed is asked again.
func TestLooksAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, rendered, fails := 0, 0, error(nil)
		l := &looks{every: time.Second, found: map[string]*found{}, ask: func(context.Context, api.InboxFilter) (api.Page[api.InboxItem], error) {
			asked++
			time.Sleep(100 * time.Millisecond)
			return api.Page[api.InboxItem]{Items: []api.InboxItem{{EventID: "e-1"}}, Next: "x"}, fails
		}, render: func(i api.InboxItem) ([]byte, error) {
			rendered++
			return []byte(i.EventID), nil
		}}
		look := func(ctx context.Context, f api.InboxFilter, want int) {
			t.Helper()
			found, err := l.at(ctx, f)
			if err != nil || !found.more || len(found.rows) != 1 || asked != want {
				t.Fatalf("asked %d times, want %d: %+v %v", asked, want, found, err)
			}
			_, _ = found.rows[0].data()
			once := rendered
			if data, err := found.rows[0].data(); data != "data: e-1\n" || err != nil || rendered != once {
				t.Errorf("%q %v, rendered %d times, want %d", data, err, rendered, once)
			}
		}
		f := api.InboxFilter{Team: "acme", Since: time.Now()}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { _, _ = l.at(t.Context(), f) })
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
		if _, err := l.at(acme, f); err == nil {
			t.Error("an error is not told")
		}
		fails = nil
		look(acme, f, 7)
		ended, cancel := context.WithCancel(acme)
		cancel()
		k := l.of(acme, f)
		k.turn <- struct{}{}
		if _, err := l.at(ended, f); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-k.turn
	})
}
