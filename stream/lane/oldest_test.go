package lane

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// oldest is the age of the first open action as the metrics have it, of the one partition that is claimed, and of the destinations.
func oldest(t *testing.T, reg *prometheus.Registry) time.Duration {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ages := map[string]time.Duration{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			age := time.Duration(m.GetGauge().GetValue() * float64(time.Second)).Round(time.Second)
			ages[f.GetName()] = max(ages[f.GetName()], age)
		}
	}
	age, ok := ages["forebay_lane_oldest_seconds"]
	if of, too := ages["forebay_lane_destination_oldest_seconds"]; !ok || !too || of != age {
		t.Fatalf("of the partition %s %v, of the destination %s %v", age, ok, of, too)
	}
	return age
}

// The age of the oldest open action grows while its destination is away, whatever else runs, in memory and out of it, and is 0 once it is done.
func TestOldestOpenAction(t *testing.T) {
	reg := prometheus.NewRegistry()
	in(t, func(c *Config) { crowd(c); c.Registerer = reg }, func(t *testing.T, r *rig) {
		same(t, "nothing came", oldest(t, reg), time.Duration(0))
		var up atomic.Bool
		r.sink.do = badUntil(&up)
		r.many("bad", 1, nil)
		time.Sleep(time.Minute)
		same(t, "one waits", oldest(t, reg), time.Minute)
		r.many("good", 3, nil)
		r.many("bad more", 50, nil) // more than the window holds
		time.Sleep(time.Minute)
		if r.spilledLanes() == 0 {
			t.Error("no lane is in the ledger alone")
		}
		same(t, "many wait", oldest(t, reg), 2*time.Minute)
		ages := map[string]float64{}
		r.s.mu.Lock()
		r.s.q.destinationAges(func(age float64, labels ...string) { ages[labels[0]] = age })
		r.s.mu.Unlock()
		same(t, "where all of them go", ages[destName], 120.0)
		same(t, "the other destination", ages[downName], 0.0)
		up.Store(true)
		time.Sleep(3 * time.Hour)
		same(t, "all are done", r.mem.count(r.claim, ledger.Done), 2*(1+3+50))
		same(t, "nothing waits", oldest(t, reg), time.Duration(0))
	})
}

// A scrape that takes the metrics slowly keeps no lane up: it may itself wait for what the lanes hold.
func TestSlowScrape(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		all := make(chan prometheus.Metric)
		go gauges{r.s, prometheus.NewDesc("age", "", []string{"topic", "partition"}, nil), r.s.q.partitionAges}.Collect(all)
		synctest.Wait()
		free := r.s.mu.TryLock()
		if free {
			r.s.mu.Unlock()
		}
		<-all
		same(t, "the lanes are free while a metric waits to be taken", free, true)
	})
}

// No metric waits for the lanes while it is written: the registry takes no other one meanwhile, and a labelled one that hands its series over keeps a
// step of the lanes up which wants a new series of it. So a scrape would stop the lanes for ever.
func TestScrapeBesideNewSeries(t *testing.T) {
	var taken collectors
	r := setup(t, func(c *Config) { c.Registerer = &taken })
	all := make(chan prometheus.Metric, 1000)
	for _, c := range taken {
		c.Collect(all)
	}
	close(all)
	written := make(chan int, 1)
	r.s.mu.Lock()
	go func() {
		n := 0
		for m := range all {
			if err := m.Write(&dto.Metric{}); err == nil {
				n++
			}
		}
		written <- n
	}()
	select {
	case n := <-written:
		if n < len(taken)/2 {
			t.Errorf("%d metrics of %d collectors", n, len(taken))
		}
	case <-time.After(20 * time.Second):
		t.Error("a metric waits for the lock of the lanes while it is written")
	}
	r.s.mu.Unlock()
}

// collectors keeps what is registered.
type collectors []prometheus.Collector

func (c *collectors) Register(n prometheus.Collector) error {
	*c = append(*c, n)
	return nil
}
func (c *collectors) MustRegister(list ...prometheus.Collector) { *c = append(*c, list...) }
func (c *collectors) Unregister(prometheus.Collector) bool      { return false }

// What a claim reads back is as old as the ledger says, be it that a batch, a release or an operator let it run.
func TestOldestAfterAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		r := setup(t, func(c *Config) { c.Registerer = reg })
		defer r.stop()
		r.sink.do = failWith(sink.ClassBusy)
		for i := range 3 {
			r.make(fmt.Sprint("e", i), func(a *ledger.Action) { a.Since = time.Now().Add(-time.Duration(i) * time.Hour) })
		}
		r.begin(t)
		synctest.Wait()
		same(t, "oldest", oldest(t, reg), 2*time.Hour)
		w := r.Waiting()[destName]
		same(t, "waits for agent", []time.Time{w.Since, w.Due}, []time.Time{time.Now().Add(-2 * time.Hour), time.Now().Add(-2 * time.Hour)})
	})
}

// What goes on only with an operator, or is being worked on, is no lag.
func TestOldestLeavesOut(t *testing.T) {
	for name, do := range map[string]func(context.Context, sink.Action) (sink.Outcome, error){
		"what stands behind a dead letter": failWith(sink.ClassRejected),
		"what is worked on":                take,
	} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			in(t, func(c *Config) {
				c.Registerer, c.Later = reg, func(ledger.AttemptRef, schemas.ActionID, trace.Place) sink.Later {
					return sink.Later{URL: "https://forebay.test/"}
				}
				d := c.Destinations[destName]
				d.Long = LongPolicy{Deadline: time.Hour}
				c.Destinations[destName] = d
			}, func(t *testing.T, r *rig) {
				r.sink.become(do)
				r.add("a", "a")
				time.Sleep(time.Minute)
				same(t, "calls", len(r.sink.ids()), 1)
				same(t, "oldest", oldest(t, reg), time.Duration(0))
			})
		})
	}
}

// TestWaitingNeverForgetsAnAction: the only action of a destination that fails is counted once, whatever is done with it: it is tried, its result is
// recorded, or it waits for its next attempt.
func TestWaitingNeverForgetsAnAction(t *testing.T) {
	in(t, nil, func(t *testing.T, r *rig) {
		call, record := make(chan struct{}), make(chan struct{})
		r.sink.become(func(context.Context, sink.Action) (sink.Outcome, error) {
			<-call
			return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassNetwork, Err: errors.New("down")}
		})
		r.mem.before = func(context.Context, []ledger.Result) error { <-record; return nil }
		counts := func() []int {
			synctest.Wait()
			w := r.Waiting()[destName]
			return []int{w.Actions, w.Running}
		}
		r.add("a")
		same(t, "it is tried", counts(), []int{0, 1})
		close(call)
		same(t, "its result is recorded", counts(), []int{1, 0})
		close(record)
		same(t, "it waits for its next attempt", counts(), []int{1, 0})
	})
}
