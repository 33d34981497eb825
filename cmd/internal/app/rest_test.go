package app

import (
	"net/url"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// TestStatementsAtRest counts what a stream process with two subscriptions asks Postgres while nothing happens: two beats a second, and what is
// looked at every few seconds. It was 9.4 a second while each part polled by itself.
func TestStatementsAtRest(t *testing.T) {
	t.Parallel()
	const mostPerSecond = 3.5
	agent := newAgent(t)
	place := newLedger(t)
	db, err := url.Parse(place.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := pgtest.NewProxy(t, db.Host)
	db.Host = proxy.Addr().String()
	r := deploy(t, agent.URL, &ledgerPlace{db.String(), place.schema}, true)
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
