package integration

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestRestoreToAPointInTime loses Postgres, and brings it back by a base backup and the WAL to a time that Kafka is ahead of, by the steps of
// RESTORE.md: each subscription is handled in one of the page's two ways. Accepted, what the ledger has forgotten runs again under the same keys; moved
// over, it does not run. What came since runs, and nothing is lost.
func TestRestoreToAPointInTime(t *testing.T) {
	t.Parallel()
	pg := rig.ArchivedPostgres(t)
	r := deploy(t, rig.SharedKafka(t), options{dbURL: pg.URL(), gap: "{wait: 1s, then: skip}"})
	var down atomic.Bool
	r.agent.answers(500, func(c call) bool { return c.event == "o-99-1" && down.Load() })
	r.serve("intake")
	stream := r.serve("stream")
	const entities = 12
	round := func(number int) {
		t.Helper()
		r.deliverAll(entities, number, issues)
		r.deliverAll(entities, number, func(e, n int) delivery { return order(orderName(e), n) })
	}
	settled := func(events int) {
		t.Helper()
		r.agent.waitActed(t, events, time.Minute)
		waitItems(t, r, stream, events, "--status", "done")
	}
	round(1)
	settled(2 * entities)
	pg.BackUp()
	round(2)
	settled(4 * entities)
	down.Store(true)
	r.deliver(order("o-99", 1))
	until(t, "it was attempted", func() bool { return r.agent.seen("o-99-1") > 0 })
	pg.Mark("before the accident") // o-99-1 is open then, and done before the accident
	down.Store(false)
	round(3)
	settled(6*entities + 1)
	forgotten := map[string]map[int32]int64{"triage": {}, "fulfil": {}}
	for name, partitions := range forgotten {
		for _, i := range r.inbox(stream, "--subscription", name, "--limit", "500") {
			if strings.HasPrefix(i.Version, "2026-07-01T12:00:03") || strings.HasSuffix(i.EventID, "-3") {
				partitions[i.Partition]++
			}
		}
	}
	stream.stop()
	pg.RestoreTo("before the accident")
	restored := time.Now()
	round(4) // the intake needs no Postgres
	stream = r.serve("stream")
	stopped := map[string]map[int32]*stopItem{}
	for name, partitions := range forgotten {
		stopped[name] = r.waitStopped(stream, name, len(partitions))
		for number, s := range stopped[name] {
			s.holds(t, "ledger_behind", partitions[number])
		}
	}
	until(t, "attention names the stopped partitions", func() bool { // it looks every few seconds
		out, err := r.try(stream.operator, "attention", "--kind", "stopped_partition")
		return err == nil && containsAll(string(out), r.team+".triage", r.team+".fulfil", "ledger_behind", "forebay subscriptions accept")
	})
	for _, s := range stopped["triage"] {
		r.accept(stream, s)
	}
	for number, s := range stopped["fulfil"] {
		if _, err := r.try(stream.operator, "subscriptions", "seek", r.team+".fulfil", "--topic", "events."+r.team+".orders",
			"--partition", strconv.Itoa(int(number)), "--to", strconv.FormatInt(s.To, 10), "--reason", "was shipped before the accident"); err != nil {
			t.Fatal(err)
		}
	}
	for name := range forgotten {
		r.waitStopped(stream, name, 0)
	}
	r.agent.waitActed(t, 8*entities+1, time.Minute)
	waitItems(t, r, stream, 4*entities, "--subscription", "triage", "--status", "done")
	waitItems(t, r, stream, 3*entities+1, "--subscription", "fulfil", "--status", "done")
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.requireComplete(t)
	v.requireOrderOfFirstCalls(t)
	forgottenAgain, openAgain := 0, 0
	for _, c := range v.repeated {
		switch {
		case c.event == "o-99-1" && c.begin.After(restored):
			openAgain++
			continue
		case c.event == "o-99-1": // its retries
			continue
		}
		forgottenAgain++
		if c.begin.Before(restored) || !strings.HasPrefix(c.version, "2026-07-01T12:00:03") {
			t.Errorf("%s of version %s was repeated at %s", c.event, c.version, c.begin)
		}
	}
	if forgottenAgain != entities || openAgain != 1 {
		t.Errorf("%d calls were repeated, want the %d that were forgotten and accepted; and %d of what was open, want 1", forgottenAgain, entities, openAgain)
	}
}
