package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// redrive runs `forebay inbox redrive` and gives its items, by event or place, and its error.
func (r *deployment) redrive(p *process, args ...string) (map[string]redriveItem, error) {
	r.t.Helper()
	out, err := r.try(p.operator, append([]string{"inbox", "redrive", r.team + ".fulfil", "-o", "jsonl"}, args...)...)
	items := map[string]redriveItem{}
	for line := range bytes.Lines(out) {
		var i redriveItem
		if err := json.Unmarshal(line, &i); err != nil {
			r.t.Fatalf("inbox redrive: %v in %s", err, out)
		}
		name := i.EventID
		if name == "" {
			name = fmt.Sprintf("%d@%d", i.Partition, i.Offset)
		}
		items[name] = i
	}
	return items, err
}

type redriveItem struct {
	inboxItem
	Action, State, Detail string
	To                    struct {
		Partition int32
		Offset    int64
	}
}

// twin is another event of an order's revision.
func twin(of delivery, id string) delivery {
	of.id = id
	return of
}

// TestWhatCannotBeDecidedIsListedAndRedriven: records that are no events, have no key, are too large or lie in another
// partition than their key's stop nothing. They are listed with reason, error and place, and their bytes are there; the
// one that a redrive can put right runs, exactly once.
func TestWhatCannotBeDecidedIsListedAndRedriven(t *testing.T) {
	t.Parallel()
	b := rig.SharedKafka(t)
	r := deploy(t, b, options{})
	p := r.serve("intake,stream")
	const parts = 6
	topic := "events." + r.team + ".orders"
	stray := order("o-1", 1)
	own := record.PartitionOf([]byte("o-1"), parts)
	wrong := (own + 1) % parts
	misplaced := misplacedOrder(r.team, stray)
	keyless := *misplaced
	keyless.Key = nil
	garbage := &kgo.Record{Topic: topic, Key: []byte("o-9"), Value: []byte("\x00 no event \xff")}
	large := &kgo.Record{Topic: topic, Key: []byte("o-9"), Value: make([]byte, 65<<20)}
	write(t, b, wrong, misplaced, &keyless, garbage, large)
	r.sender.mu.Lock()
	r.sender.accepted[stray.id] = stray // by its producer
	r.sender.mu.Unlock()

	// The partition goes on behind them, and the entity of the stray one with what comes next.
	var behind delivery
	for e := 2; behind.id == ""; e++ {
		if record.PartitionOf([]byte(orderName(e)), parts) == wrong {
			behind = order(orderName(e), 1)
		}
	}
	r.deliver(behind, order("o-1", 2))
	r.agent.waitActed(t, 1, time.Minute)
	waitItems(t, r, p, 1, "--subscription", "fulfil", "--decision", "buffered") // its first is missing
	want := map[int64]string{0: "misplaced", 1: "undecodable", 2: "undecodable", 3: "too_large"}
	for _, i := range waitItems(t, r, p, len(want), "--subscription", "fulfil", "--decision", "quarantined") {
		if i.Partition != wrong || want[i.Offset] != i.Reason {
			t.Errorf("listed as %+v, want %s", i, want[i.Offset])
		}
	}
	if raw, err := r.try(p.operator, "inbox", "raw", fmt.Sprintf("%s/fulfil/%s/%d@2", r.team, topic, wrong)); err != nil || !bytes.Equal(raw, garbage.Value) {
		t.Errorf("the bytes of what is no event: %q %v", raw, err)
	}

	got, err := r.redrive(p, "--decision", "quarantined", "--reason", "the producer is mended")
	if err == nil || !containsAll(err.Error(), "exit status 1", "4 selected, 1 done, 3 refused") {
		t.Errorf("what cannot be put right: %v", err)
	}
	if len(got) != 1 || got[stray.id].Action != "produce" || got[stray.id].To.Partition != own {
		t.Errorf("%+v", got)
	}
	r.agent.waitActed(t, 3, time.Minute)
	waitItems(t, r, p, 1, "--subscription", "fulfil", "--status", "redriven")
	story, err := r.try(p.operator, "inbox", "get", r.team+"/fulfil/orders/"+stray.id)
	if err != nil || !containsAll(string(story), fmt.Sprintf("received, and quarantined: %s/%d@0\n", topic, wrong), "produced from there by ", fmt.Sprintf(" (the producer is mended), and kept in the log as %s/%d@", topic, own)) {
		t.Errorf("its story: %s %v", story, err)
	}
	if got, err := r.redrive(p, "--decision", "quarantined", "--reason", "once more"); err == nil || len(got) != 0 || !strings.Contains(err.Error(), "3 selected, 3 refused") {
		t.Errorf("a second run: %+v %v", got, err)
	}
	if got, err := r.redrive(p, topic, fmt.Sprintf("%d@0", wrong), "--again", "--reason", "to be sure"); err != nil || got[stray.id].State != "done" {
		t.Errorf("again, as asked: %+v %v", got, err)
	}
	waitItems(t, r, p, 1, "--subscription", "fulfil", "--decision", "duplicate")
	r.requireOnce(t)
}

// misplacedOrder is an order's record for whoever writes it to another partition than its key's.
func misplacedOrder(team string, d delivery) *kgo.Record {
	return record.Encode("events."+team+".orders", &schemas.Event{
		ID: d.id, Source: "/" + team + "/orders", Type: "com.shop.order.changed", Entity: schemas.EntityKey(d.entity), Time: time.Now().UTC(), RecordedTime: time.Now().UTC(),
		Version: schemas.Version{Kind: schemas.Sequence, Value: 1}, First: new(int64(1)), Payload: schemas.Snapshot, DataContentType: "application/json",
		Hash: schemas.HashBody(d.body), Data: d.body,
	})
}

// write writes records to a partition as they are, each in a batch of its own.
func write(t *testing.T, b rig.Broker, partition int32, recs ...*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.Bootstrap(), ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(90<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, r := range recs {
		r.Partition = partition
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}
