package app

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

const ordersTopic = "events.acme.orders"

// write writes records to the orders' topic as they are, to the partitions they name.
func (r *deployment) write(recs ...*kgo.Record) {
	r.t.Helper()
	if err := r.client(kgo.RecordPartitioner(kgo.ManualPartitioner())).ProduceSync(r.t.Context(), recs...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// orderRecord is what the intake writes of an order.
func orderRecord(name, id string, rev int64) *kgo.Record {
	body := fmt.Appendf(nil, `{"type":"order","order":%q,"rev":%d}`, name, rev)
	now := time.Now().UTC().Truncate(time.Millisecond)
	return record.Encode(ordersTopic, &schemas.Event{
		ID: id, Source: "/acme/orders", Type: "order", Entity: schemas.EntityKey(name), Time: now, RecordedTime: now,
		Version: schemas.Version{Kind: schemas.Sequence, Value: rev}, Payload: schemas.Snapshot, DataContentType: "application/json",
		Hash: schemas.HashBody(body), Data: body,
	})
}

// listed waits until n items of a decision are listed, the lowest offset first.
func (p *process) listed(n int, decision gate.Decision, status string) []api.InboxItem {
	p.t.Helper()
	var page api.Page[api.InboxItem]
	var err error
	if !rig.Until(time.Minute, func() bool {
		page, err = p.api.Items(p.t.Context(), api.InboxFilter{Team: "acme", Decision: decision, Status: status})
		return err == nil && len(page.Items) == n
	}) {
		p.t.Fatalf("never %d of %s %s: %+v %v", n, decision, status, page, err)
	}
	slices.Reverse(page.Items)
	return page.Items
}

var why = api.RedriveRequest{Reason: "it is mended", By: "ann@ops"}

// TestWhatCannotBeRedrivenSaysWhy: nothing is produced that would only come back.
func TestWhatCannotBeRedrivenSaysWhy(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), true)
	p := r.run(config.RoleStream)
	keyless := orderRecord("o-1", "keyless", 1)
	keyless.Key = nil
	garbage := &kgo.Record{Topic: ordersTopic, Key: []byte("k"), Value: []byte("no event\x00")}
	done := orderRecord("o-1", "done", 1)
	waits := orderRecord("o-1", "waits", 9)
	forged := orderRecord("o-1", "done", 2)
	for _, rec := range []*kgo.Record{keyless, garbage, done, waits, forged} {
		rec.Partition = record.PartitionOf([]byte("o-1"), 3)
		r.write(rec)
	}
	agent.wait(t, 1)
	p.listed(2, "quarantined", "")
	number := record.PartitionOf([]byte("o-1"), 3)
	discard := why
	discard.Discard = true
	for _, tt := range []struct {
		source, event string
		req           api.RedriveRequest
		kind          schemas.Kind
		says          string
	}{
		{ordersTopic, fmt.Sprintf("%d@0", number), why, schemas.Invalid, "it has no key"},
		{ordersTopic, fmt.Sprintf("%d@1", number), why, schemas.Invalid, "quarantined again: read record: attribute specversion is missing"},
		{ordersTopic, fmt.Sprintf("%d@2", number), why, schemas.NotFound, "has no rejected record"},
		{"orders", "done", why, schemas.Conflict, "only what is quarantined, held or waiting"},
		{"orders", "waits", discard, schemas.Invalid, "only what is held can be discarded"},
		{"orders", "nobody", why, schemas.NotFound, "knows no event"},
	} {
		if _, err := p.api.Redrive(t.Context(), "acme", "fulfil", tt.source, tt.event, tt.req); schemas.KindOf(err) != tt.kind || !strings.Contains(fmt.Sprint(err), tt.says) {
			t.Errorf("%s %s: %v, want %s: %s", tt.source, tt.event, err, tt.kind, tt.says)
		}
	}
	conflict := p.listed(1, "conflict", "")[0]
	if _, err := p.api.Redrive(t.Context(), "acme", "fulfil", ordersTopic, fmt.Sprintf("%d@%d", conflict.Partition, conflict.Offset), why); schemas.KindOf(err) != schemas.Invalid ||
		!strings.Contains(err.Error(), "another body came under its id before") {
		t.Error(err)
	}
	// Either can be left at that, once.
	for _, place := range []string{fmt.Sprintf("%d@%d", conflict.Partition, conflict.Offset), fmt.Sprintf("%d@0", number)} {
		if got, err := p.api.Redrive(t.Context(), "acme", "fulfil", ordersTopic, place, discard); err != nil || got.Action != api.ActionDiscard || got.State != api.StateDone {
			t.Errorf("%s: %+v %v", place, got, err)
		}
		if _, err := p.api.Redrive(t.Context(), "acme", "fulfil", ordersTopic, place, discard); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "discarded") {
			t.Errorf("%s, a second time: %v", place, err)
		}
	}
	if raw, err := p.api.Raw(t.Context(), "acme", "fulfil", ordersTopic, fmt.Sprintf("%d@1", number)); err != nil || string(raw.Data) != "no event\x00" {
		t.Errorf("the bytes of what is no event: %+v %v", raw, err)
	}
	if raw, err := p.api.Raw(t.Context(), "acme", "fulfil", "orders", "done"); err != nil || !bytes.Equal(raw.Data, done.Value) {
		t.Errorf("the bytes of an event: %+v %v", raw, err)
	}
	if item, err := p.api.Item(t.Context(), "acme", "fulfil", "orders", "waits"); err != nil || !strings.HasPrefix(item.Next, "it runs when what is missing comes; ") {
		t.Errorf("what waits: %+v %v", item, err)
	}
	// What waits goes across the gap when an operator says so.
	got, err := p.api.Redrive(t.Context(), "acme", "fulfil", "orders", "waits", why)
	if err != nil || got.State != api.StateDone || got.Action != api.ActionRelease || got.Detail != "1 of 1 events run" {
		t.Errorf("%+v %v", got, err)
	}
	if calls := agent.wait(t, 2); calls[1].ID != "waits" {
		t.Errorf("%+v", calls)
	}
}

// TestOwnersAreSoonLookedAt: who asks for a hundred thousand waits for each of them, and a lost owner costs few looks.
func TestOwnersAreSoonLookedAt(t *testing.T) {
	t.Parallel()
	var within time.Duration
	for looks := range 4 {
		within += untilLook(looks)
	}
	if within > ownerLook/2 || untilLook(1000) != ownerLook {
		t.Errorf("four looks in %s, and at last every %s", within, untilLook(1000))
	}
}

// TestRedriveWithoutAnOwner: where nobody owns the partition, or its owner does not answer, the word is kept and said so.
func TestRedriveWithoutAnOwner(t *testing.T) {
	t.Parallel()
	f := unowned(t, newLedger(t))
	c := f.claim()
	f.apply(c, 0, "o-1", "first", 1)
	f.apply(c, 1, "o-1", "twin", 1)
	f.apply(c, 2, "o-1", "other", 1)
	began := time.Now()
	owned, err := f.inbox.Redrive(t.Context(), "acme", "fulfil", "orders", "twin", api.RedriveRequest{Reason: "x", By: "ann", NoWait: true})
	if err != nil || owned.State != api.StateAsked || owned.Owner != "nobody/7" || !strings.Contains(owned.Detail, "nobody/7 owns the partition and has not done it yet") {
		t.Errorf("%+v %v", owned, err)
	}
	if err := f.ns.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	free, err := f.inbox.Redrive(t.Context(), "acme", "fulfil", "orders", "other", why)
	if err != nil || free.State != api.StateAsked || free.Owner != "" || !strings.Contains(free.Detail, "as soon as somebody claims it") {
		t.Errorf("%+v %v", free, err)
	}
	if took := time.Since(began); took >= ownerPatience {
		t.Errorf("it was waited for: %s", took)
	}
	c = f.claim()
	asked, err := f.ns.Commands(t.Context(), []*ledger.Claim{c}, 0)
	if err != nil || len(asked) != 2 || asked[0].ID != owned.Command || asked[1].ID != free.Command {
		t.Fatalf("%+v %v", asked, err)
	}
	// An owner that answers is waited for.
	var owner sync.WaitGroup
	defer owner.Wait()
	owner.Go(func() {
		for _, cmd := range asked {
			if _, err := f.ns.ApplyCommand(context.WithoutCancel(t.Context()), c, cmd); err != nil {
				t.Error(err)
			}
		}
	})
	s, err := f.inbox.waitForOwner(t.Context(), inbox.New(f.l), free.Command, false)
	if err != nil || s.EndedAt == nil || s.Outcome != "1 of 1 events run" {
		t.Errorf("%+v %v", s, err)
	}
}

// TestPlaceAsAName: what is no place is an event's id.
func TestPlaceAsAName(t *testing.T) {
	t.Parallel()
	f := unowned(t, newLedger(t))
	for name, says := range map[[2]string]string{
		{ordersTopic, "0@5"}: "has no rejected record at " + ordersTopic + "/0@5", {ordersTopic, "0@-5"}: "/0@-5", {"orders", "0@5"}: "knows no event 0@5 of source acme/orders",
		{ordersTopic, "5"}: "knows no event", {ordersTopic, "@5"}: "knows no event", {ordersTopic, "0@99999999999999999999"}: "knows no event",
		{ordersTopic, "9999999999@1"}: "knows no event", {ordersTopic, "1@2@3"}: "knows no event",
	} {
		if _, err := f.inbox.Item(t.Context(), "acme", "fulfil", name[0], name[1]); schemas.KindOf(err) != schemas.NotFound || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", name, err, says)
		}
	}
}

// idle is a process's inbox on a ledger of its own, beside a namespace whose partitions a test owns.
type idle struct {
	t     *testing.T
	l     *ledger.Ledger
	ns    *ledger.Namespace
	inbox *inboxAPI
}

func unowned(t *testing.T, place *ledgerPlace) *idle {
	t.Helper()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:9", "postgres: {"+place.String()+"}", "http://127.0.0.1:9")}
	r.text = strings.Replace(r.text, "gap: {wait: 20s, then: park}", "equal: hold, gap: {wait: 20s, then: park}", 1)
	a := r.app(config.RoleStream)
	l, err := ledger.Open(t.Context(), place.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	payloads, err := reader.NewPayloads(reader.PayloadsConfig{Client: KafkaOptions(a.file(), config.RoleStream)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(payloads.Close)
	a.stream.ledger, a.stream.payloads = l, payloads
	spec := specOf(a.file(), nameInTeam{"acme", "fulfil"})
	spec.Owner = "nobody/7"
	ns, err := l.Namespace(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return &idle{t: t, l: l, ns: ns, inbox: &inboxAPI{a.stream}}
}

func (f *idle) claim() *ledger.Claim {
	f.t.Helper()
	c, err := f.ns.Claim(f.t.Context(), ledger.ClaimRequest{Partition: ledger.Partition{Topic: ordersTopic, TopicID: ledger.TopicID{1}}, Partitions: 1,
		Confirm: func(_ context.Context, stored *ledger.Position) (ledger.Start, error) {
			if stored != nil {
				return ledger.Start{Position: *stored}, nil
			}
			return ledger.Start{Position: ledger.Position{LeaderEpoch: -1}}, nil
		}})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *idle) apply(c *ledger.Claim, offset int64, entity, id string, rev int64) {
	f.t.Helper()
	rec := orderRecord(entity, id, rev)
	e, err := record.Decode(rec)
	if err != nil {
		f.t.Fatal(err)
	}
	r := ledger.Record{LeaderEpoch: 1, Source: e.Source, ID: e.ID, Type: e.Type, ReceivedAt: e.RecordedTime, Packed: func() []byte { return record.Pack(rec) }}
	r.Offset, r.AppendTime, r.Key, r.Hash, r.Entity = offset, time.Now(), e.Key(), e.Hash, e.Entity
	r.Version, r.Payload = e.Version, e.Payload
	if _, err := f.ns.Apply(f.t.Context(), []ledger.Slice{{Claim: c, From: c.Next.Offset, Records: []ledger.Record{r}, Next: ledger.Position{Offset: offset + 1, LeaderEpoch: 1}}}); err != nil {
		f.t.Fatal(err)
	}
}

// riskText adds a team to a deployment that reads the orders of acme, beside a source of its own.
const riskText = `  payments:
    sources:
      cards: {preset: github, secrets: [s]}
    destinations:
      log: {type: log}
    subscriptions:
      risk: {sources: [cards, acme/orders], begin: all, actions: [{name: look, to: log}]}
`

// TestRedriveWritesIntoNoTopicOfAnotherTeam: it goes by whose topic it would be, whatever the record says of its source.
func TestRedriveWritesIntoNoTopicOfAnotherTeam(t *testing.T) {
	t.Parallel()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:9", `postgres: {url: "postgres://127.0.0.1:1/none"}`, "http://127.0.0.1:9") + riskText}
	const shares = "      orders:\n        share: [payments]\n"
	withdrawn := r.text
	r.text = strings.Replace(r.text, "      orders:\n", shares, 1)
	shared := r.load(config.RoleStream)
	barred, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(withdrawn), Roles: []config.Role{config.RoleStream}, Run: true})
	if err != nil {
		t.Fatal(err)
	}
	of := func(source string) *kgo.Record {
		rec := orderRecord("o-1", "stray", 1)
		for i, h := range rec.Headers {
			if h.Key == "ce_source" {
				rec.Headers[i].Value = []byte(source)
			}
		}
		return rec
	}
	order, card := of("/acme/orders"), of("/payments/cards")
	for _, tt := range []struct {
		name   string
		c      *config.Config
		topic  string // where the record lies
		rec    *kgo.Record
		reason gate.Reason
		want   string // the topic
		says   string // or the error
	}{
		{"of its own source", shared, "events.payments.cards", card, gate.ReasonMisplaced, "events.payments.cards", ""},
		{"of its own source, which had another topic", shared, "events.payments.old", card, gate.ReasonMisplaced, "events.payments.cards", ""},
		{"of a shared source", shared, ordersTopic, order, gate.ReasonMisplaced, "", "is team acme's topic, which payments.risk only reads: ask team acme to redrive it for one of its own subscriptions; --discard"},
		{"that its Postgres refuses", shared, ordersTopic, order, gate.ReasonDataRejected, "", "; or change what refuses it here, then `forebay subscriptions seek payments.risk --topic events.acme.orders --partition 2 --to 7 --reason TEXT`"},
		{"of a source that is not shared any more", barred, ordersTopic, order, gate.ReasonMisplaced, "", "is team acme's topic"},
		{"of a shared source, which had another topic", shared, "events.acme.old", order, gate.ReasonMisplaced, "", "is team acme's topic"},
		{"of a topic of its own, under another's name", shared, "events.payments.old", order, gate.ReasonMisplaced, "", "is team acme's topic"},
		{"of another's topic, under its own name", shared, ordersTopic, card, gate.ReasonMisplaced, "", "is team acme's topic"},
		{"of what it never read", shared, "events.acme.github", of("/acme/github"), gate.ReasonMisplaced, "", "payments.risk does not read events.acme.github any more"},
	} {
		item := inbox.Item{Team: "payments", Subscription: "risk", Topic: tt.topic, Partition: 2, Offset: 7, Reason: tt.reason}
		topic, err := topicOf(tt.c, item, tt.rec)
		if topic != tt.want || (err == nil) != (tt.says == "") || !strings.Contains(fmt.Sprint(err), tt.says) && err != nil {
			t.Errorf("a record %s: %q %v, want %q %s", tt.name, topic, err, tt.want, tt.says)
		}
	}
}

// TestWhoReadsAnothersTopicRedrivesNothing: the reader's operators see what its subscription has set aside, and may give it up; the owner's
// redrive it, for both.
func TestWhoReadsAnothersTopicRedrivesNothing(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, newLedger(t), false)
	r.text = strings.Replace(r.text, "      orders:\n", "      orders:\n        share: [payments]\n", 1) + riskText
	r.createTopics()
	p := r.run(config.RoleStream)
	stray := orderRecord("o-1", "stray", 1)
	stray.Partition = (record.PartitionOf(stray.Key, 3) + 1) % 3
	r.write(stray)
	at := fmt.Sprintf("%d@0", stray.Partition)
	p.listed(1, "quarantined", "quarantined")
	var page *api.Attention
	if !rig.Until(time.Minute, func() bool {
		var err error
		page, err = p.api.Attention(t.Context(), api.AttentionFilter{Team: "payments"})
		return err == nil && len(page.Items) == 1
	}) {
		t.Fatalf("what payments has set aside waits for nobody: %+v", page)
	}
	if want := "forebay inbox redrive payments.risk " + ordersTopic + " " + at + " --discard --reason TEXT"; page.Items[0].Command != want {
		t.Errorf("the command is %s, want %s", page.Items[0].Command, want)
	}
	dry := why
	dry.DryRun = true
	for _, req := range []api.RedriveRequest{dry, why} {
		if _, err := p.api.Redrive(t.Context(), "payments", "risk", ordersTopic, at, req); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(fmt.Sprint(err), "is team acme's topic") {
			t.Errorf("dry run %t: %v", req.DryRun, err)
		}
	}
	discard := why
	discard.Discard = true
	if got, err := p.api.Redrive(t.Context(), "payments", "risk", ordersTopic, at, discard); err != nil || got.State != api.StateDone {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := p.api.Redrive(t.Context(), "acme", "fulfil", ordersTopic, at, why); err != nil || got.State != api.StateDone {
		t.Errorf("%+v %v", got, err)
	}
	agent.wait(t, 1)
}

// TestNothingIsRedrivenIntoACompactedTopic: it would be lost there, and would be marked as redriven all the same.
func TestNothingIsRedrivenIntoACompactedTopic(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", newLedger(t), true)
	p := r.run(config.RoleIntake, config.RoleStream)
	stray := orderRecord("o-1", "stray", 1)
	stray.Partition = (record.PartitionOf(stray.Key, 3) + 1) % 3
	r.write(stray)
	d := ingest.Delivery{Team: "acme", Source: "orders", Kind: ingest.KindUnusable, Reason: "missing_field", Method: "POST", Secret: 1,
		Headers: []schemas.Header{{Name: "X-Event-Id", Value: "o-2-1"}}, Body: order("o-2", 1).Body, Received: time.Now()}
	if err := p.app.intake.log.Quarantine(t.Context(), time.Time{}, "quarantine.acme.orders", &d); err != nil {
		t.Fatal(err)
	}
	kept, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Team: "acme", Source: "orders"})
	if err != nil || len(kept.Items) != 1 {
		t.Fatalf("%+v, %v", kept, err)
	}
	p.listed(1, "quarantined", "")
	redrive := func(want schemas.Kind) {
		t.Helper()
		place := api.QuarantinePlace{Team: "acme", Source: "orders", Partition: kept.Items[0].Partition, Offset: kept.Items[0].Offset}
		_, err := p.api.RedriveQuarantined(t.Context(), place, api.QuarantineRedrive{Reason: "it is mended", By: "me"})
		if schemas.KindOf(err) != want {
			t.Errorf("a delivery: %v, want %q", err, want)
		}
		if _, err = p.api.Redrive(t.Context(), "acme", "fulfil", ordersTopic, fmt.Sprintf("%d@0", stray.Partition), why); schemas.KindOf(err) != want {
			t.Errorf("a record: %v, want %q", err, want)
		}
	}
	compacts := func(want bool) {
		t.Helper()
		if !rig.Until(time.Minute, func() bool {
			changed := p.app.unfit.changed.Load()
			return changed != nil && (*changed)[ordersTopic].Compacts == want
		}) {
			t.Fatalf("it is not seen whether the topic is compacted (%t)", want)
		}
	}
	compact := []kadm.AlterConfig{{Name: "cleanup.policy", Value: new("compact")}}
	if _, err := kadm.NewClient(r.client()).AlterTopicConfigs(t.Context(), compact, ordersTopic); err != nil {
		t.Fatal(err)
	}
	compacts(true)
	redrive(schemas.Unavailable)
	r.createTopics() // as topics apply does
	compacts(false)
	redrive("")
}

// Why an event whose actions are under way or dead is not redriven, and the command, whole, that helps.
func TestNotRedriven(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{
		"dead_letter": "`forebay dlq replay 'acme/triage/github/it'\\''s' --reason TEXT` runs them again",
		"unknown":     "`forebay dlq replay 'acme/triage/github/it'\\''s' --outcome-unknown --reason TEXT` runs them again, `forebay dlq resolve` says that they were",
		"parked":      "`forebay dlq list --subscription acme.triage --entity 7/1` lists that, for `forebay dlq replay`",
		"done":        "it is applied (next), done: only what is quarantined, held or waiting behind a gap can be redriven",
	} {
		err := notRedriven(inbox.Item{Team: "acme", Subscription: "triage", Source: "github", EventID: "it's", Entity: "7/1", Decision: gate.Applied, Reason: gate.ReasonNext, Status: status})
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", status, err, want)
		}
	}
}
