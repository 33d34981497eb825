package producer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

// The headers of a quarantined delivery are what the schema forebay.quarantine says, and the schema has all of them.
func TestHeadersFitTheirSchema(t *testing.T) {
	t.Parallel()
	schema, _ := jsonschema.Of("forebay.quarantine")
	var written struct{ Properties map[string]any }
	if err := json.Unmarshal(schema.Text(), &written); err != nil {
		t.Fatal(err)
	}
	least := ingest.Delivery{Team: "acme", Source: "orders", Kind: "unusable", Reason: "not_json", Method: "POST", Received: time.Unix(1_800_000_000, 5)}
	most := least
	most.Secret = 2
	most.Detail, most.URL, most.Headers = "body: syntax at byte 0", "https://hooks.example.com/v1/in/acme/orders", []schemas.Header{{Name: "x-event-id", Value: "7"}}
	for name, r := range map[string]*kgo.Record{
		"least": (*Producer)(nil).QuarantineRecord("quarantine.acme.orders", &least), "most": (*Producer)(nil).QuarantineRecord("quarantine.acme.orders", &most),
		"redriven":  markRecord(7, Redriven{At: time.Unix(1_800_000_000, 0), By: "ann", Reason: "mended", Event: "e-1", To: "events.acme.orders/3@9"}),
		"discarded": markRecord(0, Redriven{At: time.Unix(1_800_000_000, 0), By: "ann"}),
	} {
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
			if strings.HasPrefix(h.Key, "forebay_") && written.Properties[h.Key] == nil {
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
