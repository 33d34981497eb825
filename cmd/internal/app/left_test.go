package app

import (
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/pgtest"
)

// TestRenamedSourceLeavesNothingUnsaid: what was accepted under the name that a source had before is told of for as long as nobody reads it, also in
// another process, and not any more once the file has the source again and all of it is done.
func TestRenamedSourceLeavesNothingUnsaid(t *testing.T) {
	t.Parallel()
	to := newAgent(t)
	r := deploy(t, to.URL, newLedger(t), true)
	roles := []config.Role{config.RoleIntake, config.RoleStream}
	p := r.run(roles...)
	p.accepted("orders", "orders-secret", order("waits", 2)) // for its first
	p.item("fulfil", "orders", "waits-2", "buffered", "")
	if _, err := p.api.PauseSubscription(t.Context(), "acme", "fulfil", api.PauseRequest{Reason: "a test", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		p.accepted("orders", "orders-secret", order(name, 1))
	}
	left := func(p *process, unread, waiting string) bool {
		facts, err := p.app.stream.readPartitions(t.Context(), r.client())
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for key, why := range facts.left {
			if key.of.name != "fulfil" || key.topic != "events.acme.orders" {
				t.Errorf("%+v: %s", key, why)
			}
			text += why
		}
		return (unread == "" || strings.Contains(text, unread)) && (waiting == "" || strings.Contains(text, waiting)) && (unread+waiting != "" || text == "")
	}
	if !left(p, "", "") {
		t.Error("what a subscription reads was left")
	}
	whole := r.text
	r.text = strings.NewReplacer("      orders:\n", "      purchases:\n", "[orders]", "[purchases]").Replace(r.text)
	r.createTopics()
	r.reload(p, roles...)
	if !rig.Until(time.Minute, func() bool { return left(p, "records are unread", "1 events wait") }) {
		t.Fatal("what was left is not told of")
	}
	p.clean()
	p = r.run(roles...)
	if !rig.Until(time.Minute, func() bool { return left(p, "records are unread", "1 events wait") }) { // what is open may not have been counted in time
		t.Error("another process does not tell of it")
	}
	if _, err := p.api.ResumeSubscription(t.Context(), "acme", "fulfil", api.PauseRequest{Reason: "a test", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	r.text = strings.Replace(whole, "{sources: [orders]", "{sources: [orders, purchases]", 1)
	r.text = strings.Replace(r.text, "      orders:\n", "      purchases: {preset: github, secrets: [third-secret]}\n      orders:\n", 1)
	r.reload(p, roles...)
	p.accepted("orders", "orders-secret", order("waits", 1))
	to.wait(t, 5)
	for _, event := range []string{"a-1", "b-1", "c-1", "waits-1", "waits-2"} {
		p.item("fulfil", "orders", event, "applied", "done")
	}
	r.text = strings.NewReplacer("      orders:\n", "      old:\n        topic: events.acme.orders\n", "[orders, purchases]", "[purchases]").Replace(r.text)
	r.reload(p, roles...)
	if !rig.Until(time.Minute, func() bool { return left(p, "", "") }) {
		t.Error("what is done was left")
	}
	p.clean()
}

// TestGoneSubscriptionLeavesNothingUnsaid: what a subscription had unread or open that the file has no more is told of, also where others' events go on
// coming to its topic, and not any more once it has its name back and all of it is done.
func TestGoneSubscriptionLeavesNothingUnsaid(t *testing.T) {
	t.Parallel()
	to, place := newAgent(t), newLedger(t)
	r := deploy(t, to.URL, place, true)
	roles := []config.Role{config.RoleIntake, config.RoleStream}
	p := r.run(roles...)
	p.accepted("orders", "orders-secret", order("waits", 2)) // for its first
	p.item("fulfil", "orders", "waits-2", "buffered", "")
	if _, err := p.api.PauseSubscription(t.Context(), "acme", "fulfil", api.PauseRequest{Reason: "a test", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		p.accepted("orders", "orders-secret", order(name, 1))
	}
	l, err := ledger.Open(t.Context(), place.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	cl := r.client()
	left := func() (all string) {
		w := p.app.waits
		w.turn <- struct{}{}
		defer func() { <-w.turn }()
		for _, later := range []time.Duration{0, unreadAfter} {
			seen := look{at: time.Now().Add(later), unknown: map[string]string{}}
			w.ofPartitions(t.Context(), cl, &seen)
			all = ""
			for _, row := range seen.rows {
				if row.Reason == reasonLeft && row.ID == "acme.fulfil" {
					all += row.Detail + "\n"
				}
			}
		}
		return all
	}
	unread := func() (sum int) {
		for _, m := range regexp.MustCompile(`(\d+) records are unread`).FindAllStringSubmatch(left(), -1) {
			n, _ := strconv.Atoi(m[1])
			sum += n
		}
		return sum
	}
	whole := r.text
	r.text = r.text[:strings.Index(r.text, "      fulfil:")]
	r.reload(p, roles...)
	if !rig.Until(time.Minute, func() bool {
		return strings.Contains(left(), "no subscription acme.fulfil any more") && strings.Contains(left(), "1 events wait")
	}) {
		t.Fatalf("what is open is not told of: %s", left())
	}
	p.app.waits.turn <- struct{}{} // a look has the ledger know that this process decides for it no more
	err = p.app.waits.tell(t.Context(), l)
	<-p.app.waits.turn
	if err != nil {
		t.Fatal(err)
	}
	p.app.stream.leave(t.Context(), l)
	if n := unread(); n != 0 {
		t.Errorf("%d are unread that may have come when nobody had the subscription any more", n)
	}
	if _, err := pgtest.Connect(t, place.url, place.schema).Exec(t.Context(), `UPDATE progress SET updated_at = now() + interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	if n := unread(); n != 3 {
		t.Errorf("%d are unread: %s", n, left())
	}
	p.accepted("orders", "orders-secret", order("d", 1))
	if n := unread(); n != 3 {
		t.Errorf("%d are unread, with what came later: %s", n, left())
	}
	r.text = whole
	r.reload(p, roles...)
	if _, err := p.api.ResumeSubscription(t.Context(), "acme", "fulfil", api.PauseRequest{Reason: "a test", By: "jo"}); err != nil {
		t.Fatal(err)
	}
	p.accepted("orders", "orders-secret", order("waits", 1))
	to.wait(t, 6)
	if !rig.Until(time.Minute, func() bool { return left() == "" }) {
		t.Errorf("what is done was left: %s", left())
	}
	p.clean()
}

// TestRefusedTopicsAreNoOtherTeams: a topic that the login may not look at, be it read or left, hides none of the others.
func TestRefusedTopicsAreNoOtherTeams(t *testing.T) {
	t.Parallel()
	var may []kfake.ACL
	for _, name := range []string{"events.acme.orders", "events.acme.purchases"} {
		may = append(may, kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationRead, Allow: true})
	}
	r := deploy(t, "http://127.0.0.1:1", newLedger(t), false, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "secret"), kfake.User("PLAIN", "reader", "secret", may...))
	r.text = strings.Replace(r.text, "session_timeout: 6s}", "session_timeout: 6s, sasl: {mechanism: PLAIN, user: root, password: secret}}", 1)
	r.createTopics()
	p := r.run(config.RoleStream)
	as := func(user string) *kgo.Client {
		return r.client(kgo.SASL(plain.Auth{User: user, Pass: "secret"}.AsMechanism()), kgo.WithHooks(record.User("user "+user)))
	}
	root, reader := as("root"), as("reader")
	read := func(cl *kgo.Client) partitionFacts {
		facts, err := p.app.stream.readPartitions(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		return facts
	}
	left := func(f partitionFacts) (topics []string) {
		for key := range f.left {
			topics = append(topics, key.topic)
		}
		slices.Sort(topics)
		return topics
	}
	if !rig.Until(time.Minute, func() bool { return len(read(root).claimed) == 6 }) {
		t.Fatal("not all partitions are claimed")
	}
	r.text = strings.NewReplacer("      orders:\n", "      purchases:\n", "[orders]", "[purchases]", "      github:", "      hub:", "[github]", "[hub]").Replace(r.text)
	r.createTopics()
	r.reload(p, config.RoleStream)
	if !rig.Until(time.Minute, func() bool { // until nobody reads the topics that are left
		own := 0
		for key := range read(root).own {
			if key.topic == "events.acme.hub" || key.topic == "events.acme.purchases" {
				own++
			}
		}
		return own == 6
	}) {
		t.Fatal("not all partitions of the new topics are assigned")
	}
	for _, name := range []string{"events.acme.github", "events.acme.orders"} {
		if err := root.ProduceSync(t.Context(), &kgo.Record{Topic: name, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if !rig.Until(time.Minute, func() bool { return len(left(read(root))) == 2 }) {
		t.Fatalf("left: %v", left(read(root)))
	}
	f := read(reader)
	if got := left(f); !slices.Equal(got, []string{"events.acme.orders"}) {
		t.Errorf("left: %v", got)
	}
	if d := cmp.Diff(map[string]int32{"events.acme.purchases": 3}, f.counts); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"events.acme.hub": "user reader has no right Describe on topic events.acme.hub"}, f.refused); d != "" {
		t.Error(d)
	}
	p.clean()
}

// What was left is unread, whichever process looks, and keeps none of them from being ready.
func TestWhatWasLeftIsUnread(t *testing.T) {
	t.Parallel()
	at, now := nameInTeam{"acme", "triage"}, time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	key := partitionKey{at, "before", 1}
	f := partitionFacts{claimed: map[partitionKey]bool{{at, "t", 0}: true}, counts: map[string]int32{"t": 1},
		left: map[partitionKey]string{key: "3 records", {nameInTeam{"beta", "gone"}, "x", 0}: "of a subscription that is gone"}}
	first, topics := map[partitionKey]time.Time{}, map[nameInTeam][]string{at: {"t"}, {"beta", "gone"}: nil}
	if got := f.judge(topics, first, now); len(got.standing) != 0 {
		t.Errorf("told at once, though its process may only be stopping: %+v", got.standing)
	}
	got := f.judge(topics, first, now.Add(unreadAfter))
	if d := cmp.Diff(map[nameInTeam]api.PartitionCounts{at: {Total: 2, Running: 1, Unread: 1}, {"beta", "gone"}: {Total: 1, Unread: 1}}, got.counts); d != "" {
		t.Error(d)
	}
	if len(got.standing) != 2 || got.standing[0].mine || got.standing[1].mine {
		t.Fatalf("%+v", got.standing)
	}
	if row := standingRow(&got.standing[1], ""); row.ID != "beta.gone" || row.Reason != reasonLeft || row.Command != "forebay inbox list --subscription beta.gone" {
		t.Errorf("%+v", row)
	}
	row := standingRow(&got.standing[0], "")
	if row.Kind != api.KindUnread || row.Reason != reasonLeft || row.Topic != "before" || *row.Partition != 1 || row.Detail != "3 records" {
		t.Errorf("%+v", row)
	}
}

// What could not be counted is not nothing: its row stays.
func TestWhatIsLeftAndNotCounted(t *testing.T) {
	t.Parallel()
	if got := leftText(0, nil); !strings.Contains(got, "could not be counted") {
		t.Errorf("not counted: %q", got)
	}
	if got := leftText(0, &inbox.Counts{}); got != "" {
		t.Errorf("nothing: %q", got)
	}
}

// A subscription that cannot be left stops no other that is gone.
func TestOneThatCannotBeLeftStopsNoOther(t *testing.T) {
	t.Parallel()
	place := newLedger(t)
	l, err := ledger.Open(t.Context(), place.config())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	db := pgtest.Connect(t, place.url, place.schema)
	for _, name := range []string{"acme.first", "acme.second"} {
		if _, err := l.Namespace(t.Context(), ledger.Spec{Name: name, Owner: "test", Window: 24 * time.Hour,
			Policy: gate.Policy{Order: gate.OrderVersion, Start: gate.StartAny, Equal: gate.EqualApply}}); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), `INSERT INTO topics (subscription, topic, topic_id, partitions) SELECT id, 't', gen_random_uuid(), 1 FROM subscriptions WHERE name = $1`, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(t.Context(), `ALTER TABLE topics ADD CHECK (subscription <> 1 OR left_at IS NULL)`); err != nil {
		t.Fatal(err)
	}
	a := &App{log: slog.New(slog.DiscardHandler)}
	a.current.Store(&config.Config{})
	(&streams{a: a}).leave(t.Context(), l)
	var left []string
	if err := db.QueryRow(t.Context(), `SELECT array_agg(s.name) FROM topics t JOIN subscriptions s ON s.id = t.subscription WHERE t.left_at IS NOT NULL`).Scan(&left); err != nil || !slices.Equal(left, []string{"acme.second"}) {
		t.Errorf("left: %v %v", left, err)
	}
}

// Where a topic ended is asked once in a look, and what is not known of one partition hides none of the others.
func TestEndOfALeftTopicIsAskedOnce(t *testing.T) {
	t.Parallel()
	k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	var asks atomic.Int64
	k.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		asks.Add(1)
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = "t"
		for n := range int32(3) {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			if p.Partition, p.Offset = n, 5; n == 1 {
				p.ErrorCode = kerr.UnknownServerError.Code
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	a, then := &App{}, time.Now()
	a.current.Store(&config.Config{})
	s, asked, first := &streams{a: a}, map[topicThen]kadm.ListedOffsets{}, int64(0)
	for n, want := range []int64{5, 0, 5} {
		o := inbox.Owned{Subscription: "acme.gone", Topic: "t", Partition: int32(n), Left: &then}
		if got := s.leftEnd(t.Context(), kadm.NewClient(cl), asked, &o); got != want {
			t.Errorf("partition %d ended at %d", n, got)
		}
		if n == 0 {
			first = asks.Load()
		}
	}
	if n := asks.Load(); n != first {
		t.Errorf("asked %d times, %d of them for the first partition", n, first)
	}
	if len(s.leftOpen.ends) != 0 {
		t.Error("what is not known of one partition is not asked again")
	}
}
