package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// copied is a ledger that has the bytes of every dead letter; nil: of none.
type copied []byte

func (c copied) DeadPayload(context.Context, ledger.DeadLetter) ([]byte, ledger.Pointer, error) {
	return c, ledger.Pointer{}, nil
}

// gone is a log that has lost what it is asked for.
type gone struct{}

func (gone) Load(context.Context, ledger.Pointer) (*schemas.Event, error) {
	return nil, &sink.AttemptError{Class: sink.ClassPayload, Err: errors.New("the log begins behind it")}
}

// The headers of a dead letter are what the schema forebay.deadletter says, and the schema has all of them.
func TestHeadersFitTheirSchema(t *testing.T) {
	t.Parallel()
	schema, _ := jsonschema.Of("forebay.deadletter")
	var written struct{ Properties map[string]any }
	if err := json.Unmarshal(schema.Text(), &written); err != nil {
		t.Fatal(err)
	}
	e := &schemas.Event{ID: "e1", Source: "/acme/orders", Type: "order.paid", Entity: "7", Payload: schemas.Delta, Version: schemas.Version{Kind: schemas.None}, Data: []byte(`{}`)}
	least := ledger.DeadLetter{ID: "a-1", Team: "acme", Subscription: "triage", Source: "/acme/orders", EventID: "e1", Entity: "7", Action: "run",
		Destination: "acme/agent", Status: ledger.Unknown, Topic: "events.acme.orders", DiedAt: time.Unix(1_800_000_000, 5)}
	most := least
	most.Status, most.Class, most.Code, most.Error, most.Attempts, most.Deaths, most.Fingerprint = ledger.Dead, "rejected", 422, "422 Unprocessable", 7, 2, "ab12"
	for name, tt := range map[string]struct {
		from copied
		dead ledger.DeadLetter
	}{"least": {record.PackEvent(e), least}, "most": {record.PackEvent(e), most}, "lost": {nil, most}} {
		rec, _, err := Record(t.Context(), tt.from, gone{}, &tt.dead)
		if err != nil {
			t.Fatal(name, err)
		}
		headers := map[string]string{}
		for _, h := range rec.Headers {
			headers[h.Key] = string(h.Value)
			if strings.HasPrefix(h.Key, "forebay-dead") && written.Properties[h.Key] == nil {
				t.Errorf("%s: the schema has no %s", name, h.Key)
			}
		}
		text, err := json.Marshal(headers)
		if err != nil {
			t.Fatal(err)
		}
		if verdict, why := schema.Check(text); verdict != jsonschema.Fits {
			t.Errorf("%s: %s %s: %s", name, verdict, why, text)
		}
	}
}

// read is a log that has one record.
type read struct{ rec *kgo.Record }

func (r read) Load(context.Context, ledger.Pointer) (*schemas.Event, error) {
	return record.Decode(r.rec)
}

// A dead letter has the id of its schema that its event's record has, also where the ledger has a copy of it.
func TestDeadLetterHasItsSchemasID(t *testing.T) {
	t.Parallel()
	w := record.Encoder{SchemaID: []byte("the id")}
	rec := w.Encode("events.acme.orders", &schemas.Event{ID: "e1", Source: "/acme/orders", Type: "order.paid", Entity: "7", Payload: schemas.Delta, Version: schemas.Version{Kind: schemas.None},
		Time: time.Unix(1_800_000_000, 0), DataSchema: "https://example.com/order.json", Data: []byte(`{}`)})
	e, err := record.Decode(rec)
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]copied{"in the log": nil, "copied": record.PackEvent(e)} {
		dead, _, err := Record(t.Context(), from, read{rec}, &ledger.DeadLetter{})
		if err != nil {
			t.Fatal(name, err)
		}
		at := slices.IndexFunc(dead.Headers, func(h kgo.RecordHeader) bool { return h.Key == record.SchemaIDHeader })
		if at < 0 || string(dead.Headers[at].Value) != "the id" {
			t.Errorf("%s: %v", name, dead.Headers)
		}
	}
}
