package batch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// The lag in time grows while a partition is not read to its end, also where nothing more is decided, and is 0 at its end.
func TestLagInTime(t *testing.T) {
	t.Parallel()
	l, at := newLag(), reader.TopicPartition{Topic: "events.acme.orders", Number: 3}
	read := func(next, end int64, appended time.Duration) {
		l.decided(at, &reader.Part{Next: ledger.Position{Offset: next}, End: end, Records: []ledger.Record{{Record: gate.Record{AppendTime: time.Now().Add(-appended)}}}})
	}
	read(10, 20, 90*time.Second)
	if got := testutil.ToFloat64(l); got < 90 || got > 120 {
		t.Errorf("lag of %f s, want 90", got)
	}
	l.decided(at, &reader.Part{Next: ledger.Position{Offset: 12}, End: 20}) // control records alone
	if got := testutil.ToFloat64(l); got < 90 {
		t.Errorf("lag of %f s, want 90", got)
	}
	read(20, 20, 60*time.Second)
	if got := testutil.ToFloat64(l); got != 0 {
		t.Errorf("lag of %f s at the end", got)
	}
	l.forget(at)
	if n := testutil.CollectAndCount(l); n != 0 {
		t.Errorf("%d partitions after the last was given up", n)
	}
}

// A scrape that takes the metrics slowly keeps no batch up.
func TestSlowScrape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, all := newLag(), make(chan prometheus.Metric)
		l.behind[reader.TopicPartition{Topic: "events.acme.orders"}] = time.Now()
		go l.Collect(all)
		synctest.Wait()
		free := l.mu.TryLock()
		if <-all; !free {
			t.Error("batches wait while a metric waits to be taken")
		}
	})
}
