package integration

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// replayItem is what the CLI prints of a replay.
type replayItem struct {
	ID, State, Detail                                string
	Records, Runs, Done, Applied, Late, Stale, Waits int64
	ByDecision                                       map[string]int64 `json:"by_decision"`
	Range                                            struct{ Offsets, Counted, Passed int64 }
	Errors                                           int
	Partitions                                       []struct{ Failure, Detail string }
	Notes, Statuses, Events                          []string
	Left                                             string
}

// replay runs a command of the noun and reads what it prints.
func (r *deployment) replay(p *process, args ...string) (item replayItem, err error) {
	r.t.Helper()
	out, err := r.try(p.operator, append([]string{"replay", "-o", "json"}, args...)...)
	if err == nil {
		if e := json.Unmarshal(out, &item); e != nil {
			r.t.Fatalf("replay %s: %v in %s", strings.Join(args, " "), e, out)
		}
	}
	return item, err
}

// mustReplay is replay where an error fails the test.
func (r *deployment) mustReplay(p *process, args ...string) replayItem {
	r.t.Helper()
	item, err := r.replay(p, args...)
	if err != nil {
		r.t.Fatalf("replay %s: %v", strings.Join(args, " "), err)
	}
	return item
}

// firstReplay is the first answer of `replay get` after a restart of what the process asks for it.
func (r *deployment) firstReplay(p *process, id string) (item replayItem) {
	r.t.Helper()
	until(r.t, "replay get answers", func() bool {
		var err error
		item, err = r.replay(p, "get", id)
		return err == nil
	})
	return item
}

// leftOut delivers, to a subscription that is not read, number n of some entities, and has it go on behind that.
func (r *deployment) leftOut(b rig.Broker, entities, n int) {
	r.t.Helper()
	r.deliverAll(entities, n, issues)
	topic := "events." + r.team + ".github"
	r.commitTo(b, r.team+".triage", func(adm *kadm.Client) kadm.Offsets {
		ends, err := adm.ListEndOffsets(r.t.Context(), topic)
		if err != nil {
			r.t.Fatal(err)
		}
		return ends.Offsets()
	})
}

// TestFillKilledTwiceEndsWithExactCounts kills the process twice while a replay runs, and has it run to its end: every event of the range ran,
// once but for what was in flight, and in the order of its entity. The figure of events is that of FOREBAY_REPLAY_EVENTS, or 2,000: at the second
// kill more is left than can be in flight.
func TestFillKilledTwiceEndsWithExactCounts(t *testing.T) {
	t.Parallel()
	n := 2_000
	if text := os.Getenv("FOREBAY_REPLAY_EVENTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{})
	r.serve("stream").stop() // the subscription has begun
	entities := n / 20
	produceIssues(t, b, r, lines(entities, 20, issues))
	r.leftOut(b, 0, 0)
	stream := r.serve("stream")
	r.waitOwned(stream, 6)
	plan := r.mustReplay(stream, "plan", "--subscription", "triage", "--rate", "0")
	if plan.Runs != int64(n) || plan.ByDecision["undecided"] != int64(n) {
		t.Fatalf("the plan says %+v", plan)
	}
	r.mustReplay(stream, "start", plan.ID, "--reason", "a reset to the end was a mistake")
	for _, part := range []int{4, 2} {
		r.agent.waitActed(t, n/part, 5*time.Minute)
		stream.kill()
		stream = r.serve("stream")
	}
	if out, err := r.try(stream.operator, "replay", "watch", plan.ID); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	r.agent.waitActed(t, n, 5*time.Minute)
	done := r.mustReplay(stream, "get", plan.ID)
	if done.State != "done" || done.Applied != int64(n) || done.Done+done.Late+done.Stale+done.Waits != 0 || done.Range.Passed != done.Range.Offsets {
		t.Errorf("came of it: %+v", done)
	}
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.require(t)
	seen := map[string]int{}
	for _, again := range v.repeated {
		if seen[again.key]++; seen[again.key] > 2 {
			t.Errorf("%s came %d times: only what is in flight may come again, once for each kill", again.event, seen[again.key]+1)
		}
	}
	if most := 2 * 256; len(v.repeated) > most {
		t.Errorf("%d calls were repeated, more than the %d that can be in flight at two kills", len(v.repeated), most)
	}
}

// TestFillGoesOnThroughRestarts kills the broker and then Postgres while a replay runs beside live events, and starts each again on its data.
// The replay goes on by itself and ends with exact counts: every event of the range ran, in the order of its entity, and was called again only
// where its partition changed hands meanwhile. The range is more than is read ahead, so that it has to be read on after the broker is back. The
// replay's rate is low enough for it to take longer than both restarts, on a slow machine too.
func TestFillGoesOnThroughRestarts(t *testing.T) {
	t.Parallel()
	b := rig.Kafka(t, 1)
	const entities, n = 75, 1_500
	pg := rig.Postgres(t)
	r := deploy(t, b, options{dbURL: pg.URL()})
	r.edit("session_timeout: 6s", "session_timeout: 20s") // no process is killed
	r.serve("stream").stop()                              // the subscription has begun
	produceIssues(t, b, r, lines(entities, n/entities, func(e, number int) delivery { return padded(issues(e, number), 16<<10) }))
	r.leftOut(b, 0, 0)
	p := r.serve("intake,stream")
	r.waitOwned(p, 6)
	r.watched = r.watch("triage")
	plan := r.mustReplay(p, "plan", "--subscription", "triage", "--rate", "25")
	r.mustReplay(p, "start", plan.ID, "--reason", "a reset to the end was a mistake")
	stopLive := r.deliverOthers(entities)
	defer stopLive()
	var faults []fault
	for _, server := range []struct{ restart, settle func() }{
		{func() { b.KillBroker(1); b.RestartBroker(1) }, func() { r.waitMirrored(b) }},
		{func() { pg.Kill(); pg.Restart() }, func() {}},
	} {
		r.agent.waitActed(t, r.agent.acted()+n/10, 2*time.Minute)
		at := time.Now()
		server.restart()
		if now := r.firstReplay(p, plan.ID); now.State != "running" || now.Range.Passed == now.Range.Offsets {
			t.Errorf("after a restart nothing is left to do: %+v", now)
		}
		server.settle()
		faults = append(faults, r.faultSince(p, at))
	}
	stopLive()
	accepted := r.sender.acceptedByID()
	r.agent.waitActed(t, len(accepted), 4*time.Minute)
	if out, err := r.try(p.operator, "replay", "watch", plan.ID); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	done := r.mustReplay(p, "get", plan.ID)
	if done.State != "done" || done.Applied != n || done.Done+done.Late+done.Stale+done.Waits != 0 || done.Errors != 0 || done.Range.Passed != done.Range.Offsets {
		t.Errorf("came of it: %+v", done)
	}
	r.look()
	v := judge(accepted, r.agent.snapshot())
	t.Logf("%d of the replay and %d live events, %d calls repeated under their keys", n, len(accepted)-n, len(v.repeated))
	v.require(t)
	report(t, "again without an excuse", r.watched.excuses(v, faults))
}

// padded is an issue's delivery whose body has so many bytes more, which do not compress.
func padded(d delivery, size int) delivery {
	padding := make([]byte, size/2)
	_, _ = rand.Read(padding) // never fails
	d.body = append(d.body[:len(d.body)-1], fmt.Sprintf(`,"padding":"%x"}`, padding)...)
	d.id = bodyID(d.body)
	return d
}

// deliverOthers delivers an event of one issue after the other, of those behind the first n, until the function that it returns is called.
func (r *deployment) deliverOthers(n int) (stop func()) {
	over := make(chan struct{}) // closed by stop
	var delivering sync.WaitGroup
	delivering.Go(func() {
		for e := n + 1; ; e++ {
			if err := r.sender.deliver(r.t.Context(), issues(e, 1)); err != nil {
				r.t.Error(err)
				return
			}
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return sync.OnceFunc(func() { close(over); delivering.Wait() })
}

// produceIssues writes what GitHub would have delivered to the topic, as the intake does.
func produceIssues(t *testing.T, b rig.Broker, r *deployment, all [][]delivery) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.Bootstrap(), ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, entity := range all {
		for _, d := range entity {
			at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(d.number) * time.Second)
			rec := record.Encode("events."+r.team+".github", &schemas.Event{
				ID: d.id, Source: "/" + r.team + "/github", Type: "com.github.issues.edited", Entity: schemas.EntityKey(d.entity), Time: at, RecordedTime: time.Now().UTC(),
				Version: schemas.Version{Kind: schemas.Timestamp, Value: at.UnixNano()}, Payload: schemas.Snapshot, DataContentType: "application/json",
				Hash: schemas.HashBody(d.body), Data: d.body,
			})
			cl.Produce(t.Context(), rec, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			r.sender.accepted[d.id] = d // by its producer
		}
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// replayRefused runs a command of the noun that must fail, with a text that says why and what to do.
func (r *deployment) replayRefused(p *process, texts []string, args ...string) {
	r.t.Helper()
	if _, err := r.replay(p, args...); err == nil || !containsAll(err.Error(), texts...) {
		r.t.Errorf("replay %s: %v, want a refusal that says %q", strings.Join(args, " "), err, texts)
	}
}

// TestReplayIsRefusedWhereTheWorldMoved asks for what cannot be replayed, and starts plans that do not hold any more: each is refused with what
// to do, and nothing runs. A cancelled one leaves what it did not decide, which another one runs.
func TestReplayIsRefusedWhereTheWorldMoved(t *testing.T) {
	t.Parallel()
	b := rig.Fake(t)
	r := deploy(t, b, options{})
	r.serve("intake")
	stream := r.serve("stream")
	r.deliverAll(12, 1, issues)
	r.agent.waitActed(t, 12, time.Minute)
	stream.stop()
	r.leftOut(b, 24, 2)
	stream = r.serve("stream")
	r.waitOwned(stream, 6)
	of := []string{"plan", "--subscription", "triage"}
	with := func(args ...string) []string { return append(slices.Clip(of), args...) }
	r.replayRefused(stream, []string{"none of events.", "(0 to 5)"}, with("--from-offset", "7=0")...)
	r.replayRefused(stream, []string{"in the future"}, with("--until", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))...)
	r.replayRefused(stream, []string{`"other" is none of fill, reprocess, shadow`}, with("--mode", "other")...)
	r.replayRefused(stream, []string{"fill never runs older snapshots", "leave --even-stale out"}, with("--even-stale")...)
	r.replayRefused(stream, []string{`"undecided" is none of applied, late, stale`, "fill"}, with("--mode", "reprocess", "--decision", "undecided")...)
	r.replayRefused(stream, []string{`"applied" is none of undecided, filtered`}, with("--decision", "applied")...)
	r.replayRefused(stream, []string{"source orders is none of the subscription's"}, with("--source", "orders")...)
	r.replayRefused(stream, []string{"no subscription"}, "plan", "--subscription", r.team+".other")
	r.replayRefused(stream, []string{"there is none", "forebay replay list"}, "start", "4711", "--reason", "x")

	// One at a time, and a cancelled one decides nothing more.
	slow, other := r.mustReplay(stream, with("--rate", "1")...), r.mustReplay(stream, of...)
	r.replayRefused(stream, []string{"--reason is needed"}, "start", slow.ID)
	r.mustReplay(stream, "start", slow.ID, "--reason", "a mistake")
	r.replayRefused(stream, []string{"another replay", "forebay replay list"}, "start", other.ID, "--reason", "impatient")
	r.agent.waitActed(t, 14, time.Minute)
	if got := r.mustReplay(stream, "cancel", slow.ID, "--reason", "too slow"); got.State != "cancelled" || got.Applied < 2 || got.Applied > 12 {
		t.Errorf("cancelled: %+v", got)
	}
	r.replayRefused(stream, []string{"it was cancelled"}, "start", slow.ID, "--reason", "again")
	r.replayRefused(stream, []string{"ended already"}, "cancel", slow.ID, "--reason", "again")
	before := r.mustReplay(stream, "get", slow.ID)
	rest := r.mustReplay(stream, with("--rate", "0")...)
	if rest.Runs != 24-before.Applied {
		t.Errorf("a plan of what is left says %+v after %+v", rest, before)
	}
	r.mustReplay(stream, "start", rest.ID, "--reason", "the rest")
	if out, err := r.try(stream.operator, "replay", "watch", rest.ID); err != nil {
		t.Errorf("%s %v", out, err)
	}
	r.agent.waitActed(t, 36, time.Minute)
	if now := r.mustReplay(stream, "get", slow.ID); now.Applied != before.Applied {
		t.Errorf("after it was cancelled it went on from %+v to %+v", before, now)
	}
	r.replayRefused(stream, []string{"it was started before"}, "start", rest.ID, "--reason", "again")
	if none := r.mustReplay(stream, of...); none.Runs != 0 || none.ByDecision["undecided"] != 0 {
		t.Errorf("after all of it there is still %+v", none)
	}

	// Plans that were made before retention deleted a part, the types changed, the topic was created again, the subscription went.
	plans := make([]string, 4)
	for i := range plans {
		plans[i] = r.mustReplay(stream, of...).ID
	}
	adm, topic := admin(t, b), "events."+r.team+".github"
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteRecords(t.Context(), ends.Offsets()); err != nil {
		t.Fatal(err)
	}
	r.replayRefused(stream, []string{"retention has deleted", "plan it again"}, "start", plans[0], "--reason", "late")
	stream.stop()
	r.edit("sources: [github]\n        begin: all", "sources: [github]\n        types: [\"com.github.issues.*\"]\n        begin: all")
	stream = r.serve("stream")
	r.replayRefused(stream, []string{"order, policies or actions", "plan it again"}, "start", plans[1], "--reason", "late")
	stream.stop()
	r.edit("sources: [github]\n        types: [\"com.github.issues.*\"]\n        begin: all", "sources: [github]\n        begin: all")
	if _, err := adm.DeleteTopics(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	r.createAgain()
	stream = r.start("stream")
	until(t, "the subscription has started", func() bool {
		_, err := r.replay(stream, "start", plans[2], "--reason", "late")
		return err != nil && containsAll(err.Error(), "the topic was created again", "plan it again")
	})
	stream.stop()
	r.edit("      triage:\n", "      sorting:\n")
	stream = r.start("stream")
	until(t, "the subscription is gone", func() bool {
		_, err := r.replay(stream, "start", plans[3], "--reason", "late")
		return err != nil && containsAll(err.Error(), "triage is not configured any more")
	})
	if calls := len(r.agent.snapshot()); calls != 36 {
		t.Errorf("%d calls, want 36", calls)
	}
}
