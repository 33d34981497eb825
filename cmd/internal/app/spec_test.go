package app

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// TestEveryKeyReachesTheLedger: what a subscription says of versions, gaps and retention is what its gate and ledger get.
func TestEveryKeyReachesTheLedger(t *testing.T) {
	t.Parallel()
	text := strings.Replace(rankedFile, "equal: first,", `order: arrival, equal: hold, stale: {snapshot: deliver_marked, delta: hold}, dedupe: {window: 40d},
        gap: {wait: 1m, then: dead_letter, max_wait: 5m, max_events: {entity: 7, subscription: 70}, max_bytes: {entity: 1MiB, subscription: 2GiB}},
        retention: {done: 50d, dead: 60d},`, 1)
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text), Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	want := ledger.Spec{
		Name: "acme.first", Window: 40 * day, Done: 50 * day, Dead: 60 * day, MaxAge: 5 * time.Minute,
		Actions: []ledger.ActionSpec{{Name: "run", Destination: "acme/out", OnDead: ledger.Park}},
		Policy: gate.Policy{
			Order: gate.OrderArrival, Start: gate.StartAny, Equal: gate.EqualHold, Stale: gate.OnStale{Snapshot: gate.StaleDeliver, Delta: gate.StaleHold},
			GapWait: time.Minute, Then: gate.ThenDeadLetter, MaxPerEntity: 7, MaxBuffered: 70, MaxBytesPerEntity: 1 << 20, MaxBytes: 2 << 30,
			FutureSkew: futureSkew,
		},
	}
	got := specOf(c, nameInTeam{"acme", "first"})
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(ledger.Spec{}, "Owner")); diff != "" {
		t.Error(diff)
	}
	if err := got.Policy.Validate(); err != nil {
		t.Error(err)
	}
	sub := c.Teams["acme"].Subscriptions["first"]
	sub.Sources = append(sub.Sources, "another")
	if p := specOf(c, nameInTeam{"acme", "first"}).Policy; p.MaxBuffered != 35 || p.MaxBytes != 1<<30 || p.MaxPerEntity != 7 || p.MaxBytesPerEntity != 1<<20 {
		t.Errorf("the share of one of two topics is %+v", p)
	}
}

// TestBacklogReachesTheLedger: lanes and ledger are told of it alike.
func TestBacklogReachesTheLedger(t *testing.T) {
	t.Parallel()
	for backlog, want := range map[string]bool{"all": false, "latest": true} {
		c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(strings.Replace(rankedFile, "equal: first,", "backlog: "+backlog+",", 1)), Embedded: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := specOf(c, nameInTeam{"acme", "first"}).Latest; got != want {
			t.Errorf("backlog: %s: %v in the ledger", backlog, got)
		}
		s := &streams{a: &App{}, fetches: &fetchers{}}
		s.a.current.Store(c)
		if got := s.lanes(c, nameInTeam{"acme", "first"}, nil, nil).Latest; got != want {
			t.Errorf("backlog: %s: %v in the lanes", backlog, got)
		}
	}
}
