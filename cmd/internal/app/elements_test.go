package app

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

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

// TestGoodListNeedsNoQuarantine: a list of which nothing goes to quarantine is taken while that topic is unfit, as a single event is.
func TestGoodListNeedsNoQuarantine(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	r.text = strings.Replace(r.text, "event: {id: header:X-Event-Id, type: /type,", "each: /orders\n        event: {id: /id, type: /type,", 1)
	compact := []kadm.AlterConfig{{Name: "cleanup.policy", Value: new("compact")}}
	if _, err := kadm.NewClient(r.client()).AlterTopicConfigs(t.Context(), compact, "quarantine.acme.orders"); err != nil {
		t.Fatal(err)
	}
	p := r.run(config.RoleIntake)
	for body, want := range map[string]int{
		`{"orders":[{"id":"a","type":"order","order":"o-1","rev":1}]}`:                                  http.StatusAccepted,
		`{"orders":[{"id":"b","type":"order","order":"o-1","rev":2},{"id":"c","order":"o-2","rev":1}]}`: http.StatusServiceUnavailable,
	} {
		d := &verify.Request{Method: "POST", Body: []byte(body), Header: http.Header{"Content-Type": {"application/json"}}}
		if status := p.send("orders", "orders-secret", d); status != want {
			t.Errorf("%s: answered %d, want %d", body, status, want)
		}
	}
	p.clean()
}

// TestRefusedListWithABadElement: of a list that was kept as refused, what can be events are, and what cannot waits alone, as if the list had been
// taken.
func TestRefusedListWithABadElement(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	r := deploy(t, a.URL, newLedger(t), true)
	r.text = strings.Replace(r.text, "preset: generic", "preset: generic\n        keep_refused: {}\n        each: /orders", 1)
	r.text = strings.Replace(r.text, "event: {id: header:X-Event-Id, type: /type,", "event: {id: /id, type: /type,", 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	list := func(body string) {
		t.Helper()
		d := &verify.Request{Method: "POST", Body: []byte(body), Header: http.Header{"Content-Type": {"application/json"}, "X-Trace": {"7"}}}
		if status := p.send("orders", "true-secret", d); status != http.StatusUnauthorized {
			t.Fatalf("answered %d", status)
		}
	}
	const bad = `{"id":"b","order":"o-2","rev":1}`
	list(`{"orders":[{"id":"a","type":"order","order":"o-1","rev":1},` + bad + `,{"id":"c","type":"order","order":"o-1","rev":2}]}`)
	p.kept("orders", 1)
	list(`{"orders":[` + bad + `,` + bad + `]}`)
	kept := p.kept("orders", 2)
	r.text = strings.Replace(r.text, "secrets: [orders-secret]", "secrets: [orders-secret, true-secret]", 1)
	r.reload(p, config.RoleIntake, config.RoleStream)
	const says = "2 elements are events, of which this is the first, and 1 still cannot be understood, which wait in quarantine one by one: element 2 is the first (missing_field)"
	for _, dry := range []bool{true, false} {
		done, err := p.redrive(kept[0], api.QuarantineRedrive{DryRun: dry})
		if err != nil || done.EventID != "a" || !strings.Contains(done.Note, says) {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	if _, err := p.redrive(kept[1], api.QuarantineRedrive{}); err == nil || !strings.Contains(err.Error(), "still cannot be understood: element 1: missing_field") {
		t.Errorf("a list of nothing that can be understood: %v", err)
	}
	var got []string
	for _, c := range a.wait(t, 2) {
		got = append(got, c.ID)
	}
	if !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("the agent saw %q", got)
	}
	waits, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Source: "acme/orders", Waiting: true, Kind: "unusable"})
	if err != nil || len(waits.Items) != 1 || waits.Items[0].Reason != "missing_field" {
		t.Fatalf("%+v, %v", waits, err)
	}
	place := api.QuarantinePlace{Team: "acme", Source: "orders", Partition: waits.Items[0].Partition, Offset: waits.Items[0].Offset}
	item, err := (&quarantineAPI{a: p.app}).read(t.Context(), place)
	if err != nil || item.Element != 2 || string(item.Body) != bad || item.Secret != 2 || item.Request().Header.Get("X-Trace") != "7" {
		t.Errorf("%+v, %v", item, err)
	}
	if kept = p.kept("orders", 2); kept[0].Redriven == nil || kept[1].Redriven != nil {
		t.Errorf("%+v", kept)
	}
	r.text = strings.Replace(r.text, "type: /type,", `type: "cel:'type' in body ? body.type : 'untyped'",`, 1)
	r.reload(p, config.RoleIntake, config.RoleStream)
	if done, err := p.redrive(waits.Items[0], api.QuarantineRedrive{}); err != nil || done.EventID != "b" {
		t.Errorf("%+v, %v", done, err)
	}
	p.clean()
}
