package app

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest/verify"
)

// TestElementsOfAListAct: each element of a list acts once, however often the list is delivered, in the order of its entity. What cannot be
// mapped waits alone for its redrive, and a delivery that is no list waits whole.
func TestElementsOfAListAct(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	r := deploy(t, a.URL, newLedger(t), true)
	r.text = strings.Replace(r.text, "event: {id: header:X-Event-Id, type: /type,", "each: /orders\n        event: {id: /id, type: /type,", 1)
	mended := strings.Replace(strings.Replace(r.text, "each: /orders", "each: /", 1), "type: /type,", `type: "cel:'type' in body ? body.type : 'untyped'",`, 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	list := func(body string) *verify.Request {
		return &verify.Request{Method: "POST", Body: []byte(body), Header: http.Header{"Content-Type": {"application/json"}}}
	}
	const orders = `[{"id":"a","type":"order","order":"o-1","rev":1},{"id":"b","order":"o-2","rev":1},{"id":"c","type":"order","order":"o-1","rev":2}]`
	for range 3 {
		p.accepted("orders", "orders-secret", list(`{"orders":`+orders+`}`))
	}
	p.accepted("orders", "orders-secret", list(strings.ReplaceAll(orders, "o-", "p-"))) // no list, as long as the file says /orders
	ids := func(n int) (got []string) {
		for _, c := range a.wait(t, n) {
			got = append(got, c.ID+" "+c.Entity)
		}
		return got
	}
	if got := ids(2); !slices.Equal(got, []string{"a o-1", "c o-1"}) {
		t.Fatalf("the agent saw %v", got)
	}
	kept, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Source: "acme/orders"})
	if err != nil || len(kept.Items) != 4 {
		t.Fatalf("%+v, %v", kept, err)
	}
	r.text = mended
	r.reload(p, config.RoleIntake, config.RoleStream)
	for _, item := range slices.Backward(kept.Items) { // the oldest first
		place := api.QuarantinePlace{Team: "acme", Source: "orders", Partition: item.Partition, Offset: item.Offset}
		done, err := p.api.RedriveQuarantined(t.Context(), place, api.QuarantineRedrive{Reason: "mended", By: "me"})
		if err != nil || done.EventID == "b" == strings.Contains(done.Note, "a list of 3 events") {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	// The whole list has ids that were seen: with other bytes they are conflicts, and run nothing.
	if got := ids(3); !slices.Equal(got, []string{"a o-1", "c o-1", "b o-2"}) {
		t.Errorf("the agent saw %v", got)
	}
	p.clean()
}
