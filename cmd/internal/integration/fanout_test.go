package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// fan is an agent of many subscriptions: it counts the calls by path, and keeps those to /hang waiting until they are let go.
type fan struct {
	*httptest.Server
	letGo func()

	mu      sync.Mutex
	calls   map[string]map[string]int // by path, then by idempotency key
	hanging int
}

func newFan(t *testing.T) *fan {
	t.Helper()
	going := make(chan struct{})
	f := &fan{calls: map[string]map[string]int{}, letGo: sync.OnceFunc(func() { close(going) })}
	f.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			f.add(1)
			select {
			case <-going:
			case <-r.Context().Done():
			}
			f.add(-1)
			if r.Context().Err() != nil {
				return
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.calls[r.URL.Path] == nil {
			f.calls[r.URL.Path] = map[string]int{}
		}
		f.calls[r.URL.Path][r.Header.Get("Idempotency-Key")]++
	}))
	t.Cleanup(f.Close)
	t.Cleanup(f.letGo)
	return f
}

func (f *fan) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hanging += n
}

// seen returns how many calls are waiting, how many actions have come on a path, and how many of them more than once.
func (f *fan) seen(path string) (hanging, actions, twice int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.calls[path] {
		if n > 1 {
			twice++
		}
	}
	return f.hanging, len(f.calls[path]), twice
}

// TestOneOfTenHangs has ten subscriptions on one topic, and the destination of one of them takes as many calls as it may have and answers
// none: the others run everything, with those calls waiting all the while. Once it answers, it gets everything, too.
func TestOneOfTenHangs(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	r.edit("session_timeout: 6s", "session_timeout: 40s") // nobody is killed
	f := newFan(t)
	const well, entities, slots = 9, 100, 64
	var destinations, subscriptions strings.Builder
	for n := range well {
		fmt.Fprintf(&destinations, "      fan-%d: {type: http, url: \"%s/fan/%d\", allow_networks: [127.0.0.0/8]}\n", n, f.URL, n)
		fmt.Fprintf(&subscriptions, "      fan-%d: {sources: [github], begin: all, actions: [{name: run, to: fan-%d}]}\n", n, n)
	}
	fmt.Fprintf(&destinations, "      hangs: {type: http, url: \"%s/hang\", timeout: 5m, concurrency: %d, allow_networks: [127.0.0.0/8]}\n", f.URL, slots)
	fmt.Fprint(&subscriptions, "      hangs: {sources: [github], begin: all, actions: [{name: run, to: hangs}]}\n")
	r.edit("    destinations:\n", "    destinations:\n"+destinations.String())
	r.edit("    subscriptions:\n", "    subscriptions:\n"+subscriptions.String())
	r.serve("intake,stream")
	r.deliverAll(entities, 1, issues)
	until(t, "as many calls hang as may", func() bool { hanging, _, _ := f.seen(""); return hanging == slots })
	r.deliverAll(entities, 2, issues) // what comes now stands behind calls that hang, or waits for a slot
	for n := range well {
		path := fmt.Sprintf("/fan/%d", n)
		until(t, path+" has run all of its actions", func() bool { _, actions, _ := f.seen(path); return actions == 2*entities })
	}
	if hanging, actions, _ := f.seen("/hang"); hanging != slots || actions != 0 {
		t.Errorf("%d calls hang and %d were answered", hanging, actions)
	}
	f.letGo()
	until(t, "once it answers, all actions come", func() bool { _, actions, _ := f.seen("/hang"); return actions == 2*entities })
	for _, path := range []string{"/hang", "/fan/0", fmt.Sprintf("/fan/%d", well-1)} {
		if _, _, twice := f.seen(path); twice > 0 {
			t.Errorf("%d actions came twice to %s", twice, path)
		}
	}
}
