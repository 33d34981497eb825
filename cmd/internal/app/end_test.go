package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// at is a broker that is only asked where it is.
type at struct {
	rig.Broker
	address string
}

func (a at) Bootstrap() string { return a.address }

// Brokers, Postgres and a destination that all answer nothing hold up the end of a process no longer than its budget.
func TestEndsWhateverHangs(t *testing.T) {
	t.Parallel()
	called, over := make(chan struct{}, 100), make(chan struct{})
	agent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		called <- struct{}{}
		<-over
	}))
	t.Cleanup(agent.Close)
	t.Cleanup(func() { close(over) })
	db, err := url.Parse(database(t))
	if err != nil {
		t.Fatal(err)
	}
	postgres := rig.HangingProxy(t, db.Host)
	db.Host = postgres.Addr()
	r := deploy(t, agent.URL, db.String(), true)
	kafka := rig.ThroughProxy(t, at{address: r.cluster.ListenAddrs()[0]})
	r.text = strings.Replace(r.text, r.cluster.ListenAddrs()[0], kafka.Bootstrap(), 1)
	p := r.start(config.RoleIntake, config.RoleStream)
	p.ready()
	for n := range 5 {
		_, delivery := issue(n, 1)
		p.accepted("github", "first-secret", delivery)
		<-called
	}
	postgres.HangAll()
	kafka.HangAll()
	began := time.Now()
	p.end(func(err error) { t.Logf("ended after %s with %v", time.Since(began), err) })
	if took := time.Since(began); took > drainTime+3*time.Second {
		t.Errorf("it took %s to end, with a budget of %s", took, drainTime)
	}
}

// A part that keeps to no bound is left to the end of the process, and the exit code tells.
func TestEndsWithoutAPartThatDoesNot(t *testing.T) {
	t.Parallel()
	a := &App{cfg: Config{Drain: 50 * time.Millisecond}, log: slog.New(slog.DiscardHandler)}
	var err error
	a.operator, err = a.listen("operator", "127.0.0.1:0", http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	over, served := make(chan struct{}), make(chan error, 1)
	served <- nil
	defer close(over)
	ctx, stop := context.WithCancel(t.Context())
	g, _ := errgroup.WithContext(ctx)
	g.Go(func() error { <-over; return nil })
	stop()
	if err := a.stopWithin(ctx, g, served); !errors.Is(err, errDrained) || !strings.Contains(fmt.Sprint(err), "50ms") {
		t.Errorf("ended with %v", err)
	}
}
