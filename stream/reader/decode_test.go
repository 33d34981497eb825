package reader

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
)

// Every key of the intake's producer is where it belongs, and every other partition is not its place.
func TestPlaceIsWhereTheProducerPutsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, 5)
	cl := r.NewClient(kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	all := func(*schemas.Event) (gate.Reason, gate.Also, error) { return "", gate.Also{}, nil }
	for i := range 50 {
		e := event(i)
		e.Entity = schemas.EntityKey(fmt.Sprintf("repo/%d", i))
		rec := record.Encode(testTopic, e)
		if err := cl.ProduceSync(r.Ctx(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
		at := rec.Partition
		for n := range int32(5) {
			rec.Partition = n
			if got, _ := decode(rec, all, bounds{partitions: 5, maxBytes: 1 << 20}); (got.Broken == "") != (n == at) {
				t.Errorf("%s in %d, produced to %d: %q", e.Entity, n, at, got.Error)
			}
		}
	}
}

// What is kept of a large record is bounded whatever makes it large.
func TestBeginning(t *testing.T) {
	t.Parallel()
	many := make([]kgo.RecordHeader, 100_000)
	for name, r := range map[string]*kgo.Record{
		"key":     {Key: make([]byte, 1<<20), Value: []byte("v")},
		"headers": {Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "small"}, {Key: "a", Value: make([]byte, 1<<20)}}, Value: []byte("v")},
		"many":    {Key: []byte("k"), Headers: many, Value: []byte("v")},
		"value":   {Key: []byte("k"), Value: make([]byte, 1<<20)},
	} {
		b := beginning(r)
		if n := len(record.Pack(b)); n > keptBytes+100 {
			t.Errorf("%s: %d bytes are kept", name, n)
		}
		if b.Value == nil || b.Key == nil {
			t.Errorf("%s: empty became null: %+v", name, b)
		}
	}
	if b := beginning(&kgo.Record{}); b.Key != nil || b.Value != nil {
		t.Errorf("null became empty: %+v", b)
	}
}

// What is wanted has the second key that it is given, and nothing else has one; where an expression fails, the event is quarantined.
func TestDecodeSelects(t *testing.T) {
	t.Parallel()
	rd := &Reader{filter: func(eventType, _ string) bool { return eventType != "unwanted" }, selects: func(e *schemas.Event) (bool, gate.Also, error) {
		return e.ID != "unmatched", gate.Also{7}, map[string]error{"fails": errors.New("why")}[e.ID]
	}}
	for _, want := range []struct {
		id, eventType       string
		also                gate.Also
		filtered, unmatched bool
		broken              gate.Reason
	}{
		{id: "wanted", eventType: "a", also: gate.Also{7}},
		{id: "unmatched", eventType: "a", filtered: true, unmatched: true},
		{id: "wanted", eventType: "unwanted", filtered: true},
		{id: "fails", eventType: "a", broken: gate.ReasonExpression},
	} {
		e := event(1)
		e.ID, e.Type = want.id, want.eventType
		got, _ := decode(record.Encode(testTopic, e), rd.wants, bounds{maxBytes: 1 << 20})
		if got.Also != want.also || got.Filtered != want.filtered || got.Unmatched != want.unmatched || got.Broken != want.broken ||
			(got.Error == "why") != (want.broken != "") {
			t.Errorf("%+v: %+v", want, got.Record)
		}
	}
}
