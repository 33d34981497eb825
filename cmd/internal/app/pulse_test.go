package app

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestPulse: a process stands still once its locks could not be taken for half a minute, which the log has once, with what all wait for. One that was
// frozen meanwhile goes on with its round, and lives.
func TestPulse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		rounds, held := 0, make(chan struct{}, 1)
		p := &pulse{log: slog.New(slog.NewTextHandler(&log, nil)), after: stillAfter, take: func() {
			rounds++
			held <- struct{}{}
			<-held
		}}
		for range 1000 {
			if err := p.lives(); err != nil {
				t.Fatal(err)
			}
		}
		if rounds != 1 {
			t.Errorf("%d rounds for a thousand that ask at once", rounds)
		}
		time.Sleep(pulseEvery)
		held <- struct{}{}
		for began := time.Now(); time.Since(began) < stillAfter-pulseWait; {
			if err := p.lives(); err != nil {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
		}
		for range 3 {
			if p.lives() == nil {
				t.Error("it stands still for half a minute, and lives")
			}
		}
		if n := strings.Count(log.String(), "stands still"); n != 1 || !strings.Contains(log.String(), "TestPulse") {
			t.Errorf("the log says so %d times, and has stacks: %s", n, log.String())
		}
		time.AfterFunc(pulseWait/2, func() { <-held })
		if err := p.lives(); err != nil || rounds != 2 {
			t.Errorf("it goes on, in round %d: %v", rounds, err)
		}
	})
}

// held is a collector that waits for a lock.
type held struct{ mu *sync.Mutex }

func (h held) Describe(all chan<- *prometheus.Desc) {
	all <- prometheus.NewDesc("forebay_held", "", nil, nil)
}
func (h held) Collect(chan<- prometheus.Metric) { takeLock(h.mu) }

// TestStandsStill: whichever of the locks that all work takes is never given back, the process does not live; with it, it lives again.
func TestStandsStill(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", &ledgerPlace{url: "postgres://127.0.0.1:1/none", schema: "none"}, false)
	a := r.app(config.RoleStream)
	a.pulse.after = time.Millisecond
	a.pulse.log = slog.New(slog.DiscardHandler)
	var metric sync.Mutex
	a.registry.MustRegister(held{&metric})
	for name, mu := range map[string]*sync.Mutex{
		"ready": &a.ready.mu, "subscriptions": &a.stream.mu, "destinations": &a.stream.sinks, "pauses": &a.stream.pauses.mu, "a metric": &metric,
	} {
		a.pulse.last = nil
		mu.Lock()
		if err := a.pulse.lives(); err == nil {
			t.Errorf("%s: it lives without it", name)
		}
		mu.Unlock()
		if !rig.Until(time.Minute, func() bool { return a.pulse.lives() == nil }) {
			t.Errorf("%s: it does not live again", name)
		}
	}
}
