package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
)

// A part that has come through what it waits for is ready when it says so, and not a moment before: what is produced in that
// moment would lie before a new subscription's begin.
func TestReadyWhenThePartSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &App{ready: newReadiness(), log: slog.New(slog.DiscardHandler)}
		const part = "subscription acme.triage"
		a.ready.set(part, errNotStarted)
		state := func() string { return a.ready.checks(t.Context(), true)[0].Error }
		tries := 0
		err := a.patiently(t.Context(), part, func(context.Context) error {
			if tries++; tries == 1 {
				return schemas.Errorf(schemas.Unavailable, "open the ledger", "away")
			}
			if got := state(); got != "open the ledger: away" {
				t.Errorf("while it is waited for: %q", got)
			}
			return nil
		})
		if err != nil || tries != 2 {
			t.Fatalf("%v after %d tries", err, tries)
		}
		if state() == "" {
			t.Error("ready before it said so")
		}
		a.ready.probe(part, func(context.Context) error { return errors.New("its begin is not stored") })
		if got := state(); got != "its begin is not stored" {
			t.Errorf("asked: %q", got)
		}
		a.ready.set(part, nil)
		if got := state(); got != "" {
			t.Errorf("set: %q", got)
		}
	})
}

// However many ask, one looks at the parts at a time; and what waits is gone over only for who is told it.
func TestReadyOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReadiness()
		var looks, notes atomic.Int32
		r.probe("ledger", func(context.Context) error { looks.Add(1); time.Sleep(time.Second); return nil })
		r.note("ledger", func() string { notes.Add(1); return "something waits" })
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if found := r.checks(t.Context(), false); len(found) != 1 || !found[0].OK || found[0].Note != "" {
					t.Errorf("%+v", found)
				}
			})
		}
		all.Wait()
		if looks.Load() != 1 || notes.Load() != 0 {
			t.Errorf("%d looks and %d notes for eight strangers who ask at once", looks.Load(), notes.Load())
		}
		if found := r.checks(t.Context(), true); found[0].Note != "something waits" {
			t.Errorf("%+v", found)
		}
	})
}

// The gauge follows the parts, and stays as it was once the process stops on purpose: no alert comes of that.
func TestReadyGauge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReadiness()
		is := func(team, of string, want float64) {
			t.Helper()
			if got := testutil.ToFloat64(r.gauge.WithLabelValues(team, of)); got != want {
				t.Errorf("%s is %v, want %v", of, got, want)
			}
		}
		r.set("ledger", errNotStarted)
		r.set("subscription acme.triage", nil)
		ctx, stop := context.WithCancel(t.Context())
		go r.run(ctx)
		synctest.Wait()
		is("", "ledger", 0)
		is("acme", "acme.triage", 1)
		r.set("ledger", nil)
		time.Sleep(readyEvery + time.Second)
		is("", "ledger", 1)
		r.probe("ledger", func(context.Context) error { stop(); return errors.New("stopping") })
		time.Sleep(readyEvery)
		synctest.Wait()
		is("", "ledger", 1)
	})
}

// at is a broker that is only asked where it is.
type at struct {
	rig.Broker
	address string
}

func (a at) Bootstrap() string { return a.address }

// Postgres and brokers that hang are seen in the gauge of a process that has the stream role alone.
func TestReadyGaugeSaysWhatIsAway(t *testing.T) {
	t.Parallel()
	postgres, ledger := newLedger(t).through(t)
	r := deploy(t, "http://127.0.0.1:1", ledger, true)
	kafka := rig.ThroughProxy(t, at{address: r.cluster.ListenAddrs()[0]})
	r.text = strings.Replace(r.text, r.cluster.ListenAddrs()[0], kafka.Bootstrap(), 1)
	r.drain = time.Second
	p := r.run(config.RoleStream)
	is := func(team, of string, want float64) {
		t.Helper()
		if !rig.Until(time.Minute, func() bool { return testutil.ToFloat64(p.app.ready.gauge.WithLabelValues(team, of)) == want }) {
			t.Fatalf("%s is not %v", of, want)
		}
	}
	is("", "ledger", 1)
	is("acme", "acme.triage", 1)
	postgres.HangAll()
	kafka.HangAll()
	is("", "ledger", 0)
	is("acme", "acme.triage", 0)
}
