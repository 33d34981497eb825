package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// admin is an operator with Kafka's protocol at hand.
func admin(t *testing.T, b rig.Broker) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.Bootstrap(), ",")...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// sql is an operator with the ledger's database at hand.
func (r *deployment) sql(text string, args ...any) {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.dbURL)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close(r.t.Context())
	if _, err := conn.Exec(r.t.Context(), text, args...); err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
}

// deliverAll delivers version number of n entities, one after the other.
func (r *deployment) deliverAll(n, number int, make1 func(entity, number int) delivery) {
	r.t.Helper()
	for e := 1; e <= n; e++ {
		if err := r.sender.deliver(r.t.Context(), make1(e, number)); err != nil {
			r.t.Fatal(err)
		}
	}
}

func issues(e, n int) delivery { return issue(7, e, n) }

// waitStopped waits until n partitions of a subscription are told as stopped and kept in the ledger.
func (r *deployment) waitStopped(p *process, name string, n int) map[int32]*stopItem {
	r.t.Helper()
	var stopped map[int32]*stopItem
	if !rig.Until(time.Minute, func() bool {
		stopped = map[int32]*stopItem{}
		for _, part := range r.subscription(p, name).Partitions {
			if part.Stopped != nil && (part.Stopped.ID != 0 || part.Stopped.Kind == "partition_count") {
				stopped[part.Partition] = part.Stopped
			}
		}
		return len(stopped) == n
	}) {
		r.t.Fatalf("%d partitions of %s are stopped, want %d: %+v", len(stopped), name, n, stopped)
	}
	return stopped
}

// accept runs the command that the stop itself tells.
func (r *deployment) accept(p *process, s *stopItem) {
	r.t.Helper()
	args := strings.Fields(strings.TrimPrefix(s.Command, "forebay "))
	args[len(args)-1] = "seen and lost" // TEXT
	dry, err := r.try(p.operator, append(slices.Clone(args), "--dry-run", "-o", "json")...)
	if err != nil || !strings.Contains(string(dry), fmt.Sprintf(`"kind": %q`, s.Kind)) || strings.Contains(string(dry), "seen and lost") {
		r.t.Errorf("accept --dry-run: %s %v", dry, err)
	}
	out, err := r.try(p.operator, append(args, "-o", "json")...)
	if err != nil || !strings.Contains(string(out), `"reason": "seen and lost"`) {
		r.t.Fatalf("%s: %s %v", s.Command, out, err)
	}
}

// holds fails unless the report says what the numbers do, in words and with times.
func (s *stopItem) holds(t *testing.T, kind string, records int64) {
	t.Helper()
	if s.Kind != kind || s.Records == nil || *s.Records != records || s.First == nil && s.Last == nil {
		t.Errorf("stopped for %+v, want %d records of %s", s, records, kind)
	}
	if !containsAll(s.Text, "best effort", s.Command) {
		t.Errorf("the text is %q", s.Text)
	}
}

// TestLogStartBeyondThePosition has a log whose start has passed records that were never read. Their partitions stop and
// say how many of when; the others go on. Once accepted, they go on behind the hole, which is recorded as skipped.
func TestLogStartBeyondThePosition(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{})
	r.serve("intake")
	stream := r.serve("stream")
	const entities = 30
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	stream.stop()
	r.deliverAll(entities, 2, issues)
	adm, topic := admin(t, b), "events."+r.team+".github"
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	start := map[int32]int64{}
	lost := int64(0)
	ends.Each(func(o kadm.ListedOffset) { // all of the second halves of partitions 0 to 2 but their last record
		if o.Partition < 3 && o.Offset >= 4 {
			start[o.Partition] = o.Offset - 1
			lost += o.Offset - 1 - o.Offset/2
		}
	})
	var to kadm.Offsets
	for number, at := range start {
		to.Add(kadm.Offset{Topic: topic, Partition: number, At: at})
	}
	if _, err := adm.DeleteRecords(t.Context(), to); err != nil || len(start) == 0 {
		t.Fatal(err, start)
	}

	stream = r.serve("stream")
	r.agent.waitActed(t, entities+entities/3, time.Minute) // the other partitions
	stopped := r.waitStopped(stream, "triage", len(start))
	var told int64
	for number, s := range stopped {
		s.holds(t, "below_log_start", start[number]-s.From)
		told += *s.Records
	}
	if told != lost {
		t.Errorf("%d records are told as lost, %d are", told, lost)
	}
	if log := stream.output(); !containsAll(log, "partition stopped", "below_log_start", "records were deleted unread", "best effort") {
		t.Error("the log does not tell")
	}
	for _, s := range stopped {
		r.accept(stream, s)
	}
	r.agent.waitActed(t, 2*entities-int(lost), time.Minute)
	r.waitStopped(stream, "triage", 0)
	r.waitOwned(stream, 6)
	skipped := int64(0)
	for _, part := range r.subscription(stream, "triage").Partitions {
		skipped += part.Position.Skipped
	}
	if skipped != lost {
		t.Errorf("%d offsets are recorded as skipped, want %d", skipped, lost)
	}
	if calls := len(r.agent.snapshot()); calls != 2*entities-int(lost) {
		t.Errorf("%d calls", calls)
	}
}

// TestLogThatWasCut loses a broker's disk, twice under one set of processes: a log that ends before the position, and
// one that has grown over it again, which only its leader epochs tell. Both stop, go on at the cut once that is accepted,
// and nothing that ran runs again.
func TestLogThatWasCut(t *testing.T) {
	t.Parallel()
	k := rig.Kafka(t, 1)
	r := deploy(t, k, options{})
	intake, stream := r.serve("intake"), r.serve("stream")
	const entities = 12
	r.deliverAll(entities, 1, issues)
	r.deliverAll(entities, 1, func(e, n int) delivery { return order(orderName(e), n) })
	r.agent.waitActed(t, 2*entities, time.Minute)
	waitItems(t, r, stream, 2*entities, "--status", "done")
	stream.stop()
	intake.stop()
	k.KillBroker(1)
	k.LoseData(1, "events."+r.team+".github")
	k.LoseData(1, "events."+r.team+".orders")
	k.RestartBroker(1)
	r.serve("intake")
	// The issues' topic grows over where it was before anybody looks; the orders' stays empty.
	for n := 2; n <= 4; n++ {
		r.deliverAll(entities, n, issues)
	}
	stream = r.serve("stream")
	held := map[int32]int{}
	for _, i := range r.inbox(stream, "--subscription", "triage", "--limit", "500") {
		held[i.Partition]++
	}
	cut := r.waitStopped(stream, "triage", len(held))
	for number, s := range cut {
		s.holds(t, "truncated", int64(held[number]))
		if s.From != 0 || s.Resume != 0 {
			t.Errorf("partition %d goes on at %+v", number, s)
		}
	}
	short := r.waitStopped(stream, "fulfil", countPartitions(r.inbox(stream, "--subscription", "fulfil", "--limit", "500")))
	r.deliverAll(entities, 2, func(e, n int) delivery { return order(orderName(e), n) }) // it grows on while it stands
	for number, s := range short {
		if s.Kind != "above_log_end" || s.From != 0 {
			t.Errorf("partition %d: %+v", number, s)
		}
	}
	for _, s := range cut {
		r.accept(stream, s)
	}
	for _, s := range short {
		r.accept(stream, s)
	}
	r.agent.waitActed(t, 6*entities, time.Minute)
	r.waitStopped(stream, "triage", 0)
	r.waitStopped(stream, "fulfil", 0)
	r.requireOnce(t)
}

func countPartitions(items []inboxItem) int {
	seen := map[int32]bool{}
	for _, i := range items {
		seen[i.Partition] = true
	}
	return len(seen)
}

// TestTopicCreatedAgain deletes a topic under a running stream and creates it again. All of its partitions stop until
// the new topic is accepted as a whole; it is then read from its beginning, and an event that came by the old one is
// known. What was dead of the old one, and its word to run again, goes on in the new one, before what came behind it.
func TestTopicCreatedAgain(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{})
	var mended atomic.Bool
	bad := issues(99, 1)
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return c.event == bad.id && !mended.Load() })
	intake, stream := r.serve("intake"), r.serve("stream")
	const entities = 12
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	waitItems(t, r, stream, entities, "--status", "done")
	r.deliver(bad)
	dead := r.waitDead(stream, 1)
	intake.stop()
	topic := "events." + r.team + ".github"
	if _, err := admin(t, b).DeleteTopics(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	r.createAgain()
	stopped := r.waitStopped(stream, "triage", 6)
	r.serve("intake")
	r.deliverAll(entities, 1, issues)
	r.deliverAll(entities, 2, issues)
	r.deliver(issues(99, 2))
	open := 0
	for number, s := range stopped {
		open += strings.Count(s.Text, "; 1 actions that are open and 0 events that wait go on then")
		if s.Kind != "topic_recreated" || s.Records != nil || !containsAll(s.Text, "nobody can count them", "unknown version lines") {
			t.Errorf("partition %d: %+v", number, s)
		}
	}
	if _, err := r.try(stream.operator, "subscriptions", "accept", r.team+".triage", "--topic", topic, "--partition", "1", "--reason", "x"); err == nil ||
		!strings.Contains(err.Error(), "accepted as a whole") {
		t.Errorf("a part of it was accepted: %v", err)
	}
	if open != 1 {
		t.Errorf("%d stops tell what is open", open)
	}
	r.accept(stream, stopped[0])
	r.agent.waitActed(t, 2*entities+1, time.Minute)
	r.waitStopped(stream, "triage", 0)
	r.waitOwned(stream, 6)
	waitItems(t, r, stream, entities, "--decision", "duplicate")
	waitItems(t, r, stream, 1, "--status", "parked")
	mended.Store(true)
	if got, err := r.dlq(stream, "replay", dead.ID, "--reason", "the agent takes it"); err != nil || len(got) != 1 || got[0].State != "done" {
		t.Errorf("%+v %v", got, err)
	}
	waitItems(t, r, stream, 2*entities+2, "--status", "done")
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.require(t)
	if len(v.repeated) != 1 || v.repeated[0].event != bad.id {
		t.Errorf("called more than once: %+v", v.repeated)
	}
}

// createAgain runs topics apply until the deletion is through: brokers answer a delete before it is.
func (r *deployment) createAgain() {
	r.t.Helper()
	var out []byte
	var err error
	if !rig.Until(time.Minute, func() bool {
		out, err = r.try("127.0.0.1:0", "topics", "apply", "-c", r.config, "-o", "json")
		return err == nil && strings.Contains(string(out), `"action": "create"`)
	}) {
		r.t.Fatalf("the topic was never created again: %s %v", out, err)
	}
}

// TestPartitionGrowthIsRefusedWithTheWayOut grows a topic, which moves entities between partitions. The stream stands
// still, says how many records the new partitions hold, and the way out that it names works: the copy has every entity in
// one partition and in order.
func TestPartitionGrowthIsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{})
	intake, stream := r.serve("intake"), r.serve("stream")
	const entities = 24
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	waitItems(t, r, stream, entities, "--status", "done")
	stream.stop()
	intake.stop()
	topic := "events." + r.team + ".github"
	if _, err := admin(t, b).UpdatePartitions(t.Context(), 9, topic); err != nil {
		t.Fatal(err)
	}
	p := r.serve("stream") // for what else it has
	if !containsAll(p.output(), "has 9 partitions, configured are 6", "forebay topics rekey "+topic+" --partitions 6") {
		t.Errorf("serve with another count: %s", p.output())
	}
	p.stop()
	// Somebody makes it start all the same.
	r.edit("github: {preset: github,", "github: {topics: {partitions: 9}, preset: github,")
	intake = r.serve("intake")
	r.deliverAll(entities, 2, issues)
	moved := int64(0)
	ends, err := admin(t, b).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Partition >= 6 {
			moved += o.Offset
		}
	})
	stream = r.serve("stream")
	for number, s := range r.waitStopped(stream, "triage", 9) {
		s.holds(t, "partition_count", moved)
		if want := "forebay topics rekey " + topic + " --partitions 9 -c FILE"; s.Command != want {
			t.Errorf("partition %d says to run %s", number, s.Command)
		}
	}
	if _, err := r.try(stream.operator, "subscriptions", "accept", r.team+".triage", "--reason", "x"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a count was accepted: %v", err)
	}
	stream.stop()
	intake.stop()
	r.command("topics", "rekey", topic, "--partitions", "9", "-c", r.config, "--run")
	r.edit("github: {topics: {partitions: 9}, preset: github,", "github: {topic: "+topic+".9, topics: {partitions: 9}, preset: github,")
	r.serve("intake")
	stream = r.serve("stream")
	r.deliverAll(entities, 3, issues)
	r.agent.waitActed(t, 3*entities, time.Minute)
	r.waitOwned(stream, 9)
	r.requireOnce(t)
}

// TestRewindPastTheDedupeWindow moves a group back to before what dedupe remembers. The partitions stop until that is
// accepted; then everything is read again, and runs again as far as it was forgotten.
func TestRewindPastTheDedupeWindow(t *testing.T) {
	t.Parallel()
	b := rig.Fake(t)
	r := deploy(t, b, options{})
	r.serve("intake")
	stream := r.serve("stream")
	const entities = 12
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	waitItems(t, r, stream, entities, "--status", "done")
	stream.stop()
	// As if the subscription were older than its oldest window, because older ones were dropped.
	r.sql(`UPDATE forebay.subscriptions SET created_at = created_at - interval '100 days'`)
	b.ResetToEarliest(r.team+".triage", "events."+r.team+".github")
	stream = r.serve("stream")
	held := map[int32]int64{}
	for _, i := range r.inbox(stream, "--subscription", "triage", "--limit", "500") {
		held[i.Partition]++
	}
	stopped := r.waitStopped(stream, "triage", len(held))
	for number, s := range stopped {
		if s.Kind != "dedupe_forgotten" || s.From != 0 || s.To != held[number] || s.Records == nil || !containsAll(s.Text, "to before what dedupe remembers", "best effort") {
			t.Errorf("partition %d: %+v", number, s)
		}
	}
	if calls := len(r.agent.snapshot()); calls != entities {
		t.Errorf("%d calls before it was accepted", calls)
	}
	out, err := r.try(stream.operator, "subscriptions", "accept", r.team+".triage", "--reason", "a mended agent", "-o", "id")
	if err != nil || len(strings.Fields(string(out))) != len(held) {
		t.Fatalf("accept: %s %v", out, err)
	}
	r.waitStopped(stream, "triage", 0)
	until(t, "all is read again", func() bool { return r.skipped(stream) >= entities }) // and skipped: its windows live, in truth
	if calls := len(r.agent.snapshot()); calls != entities {
		t.Errorf("%d calls after it was accepted", calls)
	}
}

// TestLostLedgerHistory goes on with an older copy of the ledger, as after a failover to a standby that was behind. The
// partitions that the group's mirror knows more of stop; accepted, what was lost runs again, under the same keys.
func TestLostLedgerHistory(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{})
	r.serve("intake")
	stream := r.serve("stream")
	r.waitOwned(stream, 6) // or the copy does not know a partition that was claimed late, and it stops, too
	const entities = 12
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	waitItems(t, r, stream, entities, "--status", "done")
	stream.stop()
	standby := rig.CopyDatabase(t, r.dbURL)
	stream = r.serve("stream")
	r.deliverAll(entities, 2, issues)
	r.agent.waitActed(t, 2*entities, time.Minute)
	waitItems(t, r, stream, 2*entities, "--status", "done")
	lost := map[int32]int64{}
	for _, i := range r.inbox(stream, "--subscription", "triage", "--limit", "500") {
		if strings.HasPrefix(i.Version, "2026-07-01T12:00:02") {
			lost[i.Partition]++
		}
	}
	stream.stop()
	failover := time.Now()
	r.dbURL = standby
	stream = r.serve("stream")
	stopped := r.waitStopped(stream, "triage", len(lost))
	for number, s := range stopped {
		s.holds(t, "ledger_behind", lost[number])
		r.accept(stream, s)
	}
	r.waitStopped(stream, "triage", 0)
	waitItems(t, r, stream, 2*entities, "--subscription", "triage", "--status", "done")
	v := judge(r.sender.acceptedByID(), r.agent.snapshot())
	v.requireComplete(t)
	v.requireOrderOfFirstCalls(t)
	if len(v.repeated) != entities {
		t.Errorf("%d calls were repeated, want the %d that were lost", len(v.repeated), entities)
	}
	for _, c := range v.repeated {
		if c.begin.Before(failover) || !strings.HasPrefix(c.version, "2026-07-01T12:00:02") {
			t.Errorf("%s was repeated at %s", c.event, c.begin)
		}
	}
}

// TestPostgresComesBackOlder restores Postgres to an earlier state under a process that goes on. The partitions that Kafka knows more of stop;
// accepted, what was lost runs again under the same keys, what came since runs, and nothing stays open.
func TestPostgresComesBackOlder(t *testing.T) {
	t.Parallel()
	pg := rig.Postgres(t)
	r := deploy(t, rig.SharedKafka(t), options{dbURL: pg.URL()})
	p := r.serve("intake,stream")
	const entities = 40
	r.deliverAll(entities, 1, issues)
	r.agent.waitActed(t, entities, time.Minute)
	waitItems(t, r, p, entities, "--status", "done")
	bringBack := pg.Keep()
	for number := 2; number <= 4; number++ {
		r.deliverAll(entities, number, issues)
	}
	r.agent.waitActed(t, 4*entities, 2*time.Minute)
	waitItems(t, r, p, 4*entities, "--status", "done")
	bringBack()
	r.deliverAll(entities, 5, issues)
	if !rig.Until(2*time.Minute, func() bool {
		_, _ = r.try(p.operator, "subscriptions", "accept", r.team+".triage", "--reason", "a backup was restored") // fails while nothing is stopped
		return r.agent.acted() == 5*entities && len(r.inbox(p, "--subscription", "triage", "--status", "done", "--limit", "500")) == 5*entities
	}) {
		out, err := r.try(p.operator, "inbox", "list", "--status", "received")
		t.Errorf("%d of %d events were acted on; %d are done: %s %v", r.agent.acted(), 5*entities, len(r.inbox(p, "--subscription", "triage", "--status", "done", "--limit", "500")), out, err)
	}
	if v := judge(r.sender.acceptedByID(), r.agent.snapshot()); len(v.lost)+len(v.unknown)+len(v.rekeyed) > 0 {
		t.Errorf("%+v", v)
	}
}

// TestOneUnfitTopicHoldsUpNobodyElse starts a process while one topic is missing: what needs it waits, says so and refuses deliveries, and the
// rest runs. Once the topic is applied, it runs without a restart. While nothing can run, the process ends.
func TestOneUnfitTopicHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{})
	adm := admin(t, b)
	if _, err := adm.DeleteTopics(t.Context(), "events."+r.team+".orders"); err != nil {
		t.Fatal(err)
	}
	p := r.serve("intake,stream")
	r.deliverAll(3, 1, issues)
	r.agent.waitActed(t, 3, time.Minute)
	if status := r.sender.post(t.Context(), order("o-1", 1)); status != 503 {
		t.Errorf("a delivery for the missing topic is answered %d", status)
	}
	out, err := r.try(p.operator, "attention")
	if err != nil || !containsAll(string(out), r.team+".fulfil", "topic_unfit", "topics apply") {
		t.Errorf("attention: %s %v", out, err)
	}
	r.command("topics", "apply", "-c", r.config)
	r.deliver(order("o-1", 1))
	r.agent.waitActed(t, 4, time.Minute)
	until(t, "nothing waits", func() bool {
		out, err := r.try(p.operator, "attention")
		return err == nil && !strings.Contains(string(out), ".fulfil")
	})
	p.stop()
	if _, err := adm.DeleteTopics(t.Context(), "events."+r.team+".orders", "events."+r.team+".github"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.try("127.0.0.1:0", "serve", "--roles", "stream", "-c", r.config); err == nil || !strings.Contains(err.Error(), "missing: ") {
		t.Errorf("a process with nothing that can run: %v", err)
	}
}
