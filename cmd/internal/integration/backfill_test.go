package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// shop is the orders API: it knows every revision of o-1 up to 9, and nothing of other orders.
type shop struct {
	*httptest.Server
	asked, broken atomic.Int32 // requests; how many of the next are answered 503
}

func newShop(t *testing.T) *shop {
	s := &shop{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		from, err1 := strconv.Atoi(r.URL.Query().Get("from"))
		to, err2 := strconv.Atoi(r.URL.Query().Get("to"))
		switch {
		case r.Header.Get("Authorization") != "Bearer "+ordersSecret:
			w.WriteHeader(http.StatusUnauthorized)
		case s.broken.Add(-1) >= 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path != "/orders/o-1/history":
			w.WriteHeader(http.StatusNotFound)
		case err1 != nil || err2 != nil || to > 9:
			w.WriteHeader(http.StatusBadRequest)
		default:
			fmt.Fprint(w, `{"revisions": [`)
			for rev := from; rev <= to; rev++ {
				if rev > from {
					fmt.Fprint(w, ",")
				}
				fmt.Fprintf(w, `{"type":"com.shop.order.changed","order":{"id":"o-1","rev":%d}}`, rev)
			}
			fmt.Fprint(w, `]}`)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// source is what the config of the orders source says of it.
func (s *shop) source() string {
	return `        backfill:
          url: "` + s.URL + `/orders/{entity}/history?from={from}&to={to}"
          headers: {Authorization: "Bearer ${env:ORDERS_SECRET}"}
          items: /revisions
          retry: {attempts: 3, within: 20s, min: 50ms, max: 200ms}
          allow_networks: [127.0.0.0/8]`
}

// TestGapIsFilledFromTheAPI shows that what is missing after the wait is asked for, comes into the topic, and runs in its
// place, once, also where the owner is killed while it asks; and that an order the API does not know is parked.
func TestGapIsFilledFromTheAPI(t *testing.T) {
	t.Parallel()
	api := newShop(t)
	r := deploy(t, rig.SharedKafka(t), options{gap: "{wait: 300ms, then: backfill, within: 20s, otherwise: park}", sources: api.source()})
	p := r.serve("intake,stream")
	api.broken.Store(1)
	r.deliver(order("o-1", 1), order("o-1", 4), order("o-2", 1), order("o-2", 3))
	r.agent.waitActed(t, 5, 30*time.Second) // o-1: 1 2 3 4; o-2: 1
	waitItems(t, r, p, 1, "--decision", "parked", "--entity", "o-2")
	var revs []string
	for _, c := range r.agent.snapshot() {
		if c.entity == "o-1" {
			revs = append(revs, c.event)
		}
	}
	if want := []string{"o-1-1", "backfill:o-1:" + version(2), "backfill:o-1:" + version(3), "o-1-4"}; !slices.Equal(revs, want) {
		t.Errorf("order o-1 ran as %q, want %q", revs, want)
	}

	api.broken.Store(1 << 20) // nobody answers while the owner lives
	asked := api.asked.Load()
	r.deliver(order("o-1", 7))
	until(t, "the API is asked", func() bool { return api.asked.Load() > asked })
	p.kill()
	api.broken.Store(0)
	r.serve("intake,stream")
	r.agent.waitActed(t, 8, 60*time.Second)
	if got := len(r.agent.snapshot()); got != 8 {
		t.Errorf("%d calls for 8 actions", got)
	}
}

// version is a sequence's value as text that sorts.
func version(n int) string { return fmt.Sprintf("%020d", n) }
