package app

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// TestStatementsAtRest counts what a stream process with two subscriptions asks Postgres while nothing happens: two beats a second, and what is
// looked at every few seconds. It was 9.4 a second while each part polled by itself.
func TestStatementsAtRest(t *testing.T) {
	t.Parallel()
	const mostPerSecond = 3.5
	agent := newAgent(t)
	proxy, place := newLedger(t).counted(t)
	r := deploy(t, agent.URL, place, true)
	intake, p := r.run(config.RoleIntake), r.run(config.RoleStream)
	intake.accepted("orders", "orders-secret", order("o", 1))
	agent.wait(t, 1)
	lowest := 1000.0
	for began := time.Now(); lowest > mostPerSecond && time.Since(began) < 2*time.Minute; { // what the event has left ends meanwhile
		before, at := proxy.Passed.Load(), time.Now()
		time.Sleep(10 * time.Second)
		rate := float64(proxy.Passed.Load()-before) / time.Since(at).Seconds()
		t.Logf("%.1f statements a second", rate)
		lowest = min(lowest, rate)
	}
	if lowest > mostPerSecond || lowest < 1 {
		t.Errorf("%.1f statements a second at rest, want at most %.1f, and those of the beat", lowest, mostPerSecond)
	}
	p.clean()
}

// TestRoundTripsOfALoneEvent: before its call an event asks Postgres twice, one after the other: for what the gate decides by, and to write what
// it has decided.
func TestRoundTripsOfALoneEvent(t *testing.T) {
	t.Parallel()
	proxy, place := newLedger(t).counted(t)
	calls := make(chan int64, 1)
	agent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls <- proxy.Trips.Load() }))
	t.Cleanup(agent.Close)
	r := deploy(t, agent.URL, place, true)
	intake, p := r.run(config.RoleIntake), r.run(config.RoleStream)
	fewest := int64(100)
	for i := 1; i <= 30; i++ { // a beat may fall into some; the first ones prepare statements
		before := proxy.Trips.Load()
		intake.accepted("orders", "orders-secret", order("o", i))
		at := <-calls
		fewest = min(fewest, at-before)
		if !rig.Until(time.Minute, func() bool { return proxy.Trips.Load() > at }) {
			t.Fatal("the end of the call is not recorded")
		}
	}
	if fewest != 2 {
		t.Errorf("%d round trips before the call, want 2", fewest)
	}
	p.clean()
}

// counted is the same ledger behind a proxy that counts.
func (p *ledgerPlace) counted(t *testing.T) (*pgtest.Proxy, *ledgerPlace) {
	t.Helper()
	db, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := pgtest.NewProxy(t, db.Host)
	db.Host = proxy.Addr().String()
	return proxy, &ledgerPlace{db.String(), p.schema}
}
