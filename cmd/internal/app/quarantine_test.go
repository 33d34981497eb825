package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// TestQuarantinedDeliveryBecomesItsEvent: a mapping is wrong, deliveries are kept aside, the mapping is mended, and what was
// kept acts once, however often that is asked for.
func TestQuarantinedDeliveryBecomesItsEvent(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	r := deploy(t, a.URL, newLedger(t), true)
	mended := r.text
	r.text = strings.Replace(mended, "type: /type", "type: /typ", 1)
	p := r.run(config.RoleIntake, config.RoleStream)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	d := order("o-1", 1)
	d.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	p.accepted("orders", "orders-secret", d)
	kept, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Team: "acme", Source: "orders"})
	if err != nil || len(kept.Items) != 1 {
		t.Fatalf("%+v, %v", kept, err)
	}
	place := api.QuarantinePlace{Team: "acme", Source: "orders", Partition: kept.Items[0].Partition, Offset: kept.Items[0].Offset}
	if body, err := p.api.QuarantinedBody(t.Context(), place); err != nil || string(body) != string(d.Body) {
		t.Errorf("body %q, %v", body, err)
	}
	ask := api.QuarantineRedrive{Reason: "the mapping is mended", By: "me"}
	if _, err := p.api.RedriveQuarantined(t.Context(), place, ask); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), "still cannot be understood: missing_field") {
		t.Errorf("redrive before the mapping is mended: %v", err)
	}
	for _, elsewhere := range []api.QuarantinePlace{{Team: "acme", Source: "orders", Offset: 1}, {Team: "acme", Source: "orders", Partition: 1},
		{Team: "acme", Source: "github"}, {Team: "acme", Source: "orders", Offset: -1}, {Team: "acme", Source: "none"}, {Team: "none", Source: "orders"}} {
		if _, err := p.api.RedriveQuarantined(t.Context(), elsewhere, ask); schemas.KindOf(err) != schemas.NotFound {
			t.Errorf("%+v: %v", elsewhere, err)
		}
	}

	r.text = mended
	r.reload(p, config.RoleIntake, config.RoleStream)
	dry := ask
	dry.DryRun = true
	planned, err := p.api.RedriveQuarantined(t.Context(), place, dry)
	if err != nil || planned.State != api.StatePlanned || planned.To != nil || planned.EventID != "o-1-1" || planned.Type != "order" || planned.Entity != "o-1" {
		t.Fatalf("dry run: %+v, %v", planned, err)
	}
	for again := range 2 {
		done, err := p.api.RedriveQuarantined(t.Context(), place, ask)
		if err != nil || done.State != api.StateDone || done.To == nil || done.To.Topic != "events.acme.orders" || done.Note != "" {
			t.Fatalf("redrive: %+v, %v", done, err)
		}
		// What was redriven says so, and is not redriven by mistake.
		kept, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Source: "acme/orders"})
		if err != nil || len(kept.Items) != 1 {
			t.Fatalf("%+v, %v", kept, err)
		}
		if m := kept.Items[0].Redriven; m == nil || m.By != "me" || m.Reason != ask.Reason || m.EventID != "o-1-1" || m.To != names.Place(*done.To).String() || time.Since(m.At) > time.Minute {
			t.Errorf("redriven %d times, and marked %+v", again+1, m)
		}
		if left, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Waiting: true}); err != nil || len(left.Items) != 0 {
			t.Errorf("still waiting: %+v, %v", left, err)
		}
		for _, dry := range []bool{false, true} {
			once := ask
			once.Again, once.DryRun = false, dry
			if _, err := p.api.RedriveQuarantined(t.Context(), place, once); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "by me already (the mapping is mended)") {
				t.Errorf("redriven by mistake: %v", err)
			}
		}
		ask.Again = true
	}
	// What was redriven is discarded only if that is asked for, and what was discarded redriven likewise.
	drop := api.QuarantineRedrive{By: "me", Reason: "nobody needs it", Discard: true}
	if _, err := p.api.RedriveQuarantined(t.Context(), place, drop); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "it was redriven at") {
		t.Errorf("discarded by mistake: %v", err)
	}
	drop.Again = true
	if done, err := p.api.RedriveQuarantined(t.Context(), place, drop); err != nil || done.State != api.StateDone || done.To != nil {
		t.Errorf("discard: %+v, %v", done, err)
	}
	once := ask
	once.Again = false
	if _, err := p.api.RedriveQuarantined(t.Context(), place, once); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "by me already (nobody needs it); --again") {
		t.Errorf("redriven after it was discarded: %v", err)
	}
	p.accepted("orders", "orders-secret", order("o-1", 2)) // behind them; its order needs the first
	calls := a.wait(t, 2)
	if len(calls) != 2 || calls[0].ID != "o-1-1" || calls[0].Entity != "o-1" || calls[1].ID != "o-1-2" || strings.Contains(calls[0].Trace, trace) || !strings.HasSuffix(calls[0].Trace, "-00") { // a stranger's trace is not entered
		t.Errorf("the agent saw %+v", calls)
	}
	page, err := p.api.Items(t.Context(), api.InboxFilter{Source: "orders"})
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	if first := page.Items[len(page.Items)-1]; first.EventID != "o-1-1" || first.Duplicates != 1 {
		t.Errorf("%+v: asked twice, run once", first)
	}
	p.clean()
}

// TestRedrivenHasItsSchemasID: the record of what is redriven is as that of what is taken at once.
func TestRedrivenHasItsSchemasID(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", newLedger(t), false)
	const source = "      events: {preset: cloudevents, secrets: [events-secret], event: {entity: [%s]}}\n      orders:"
	r.text = strings.Replace(r.text, "      orders:", fmt.Sprintf(source, "/none"), 1)
	mended := strings.Replace(r.text, "/none", "/order", 1)
	r.createTopics()
	p := r.run(config.RoleIntake, config.RoleStream)
	event := func(id string) *verify.Request {
		return &verify.Request{Method: "POST", Body: []byte(`{"order":"o"}`), Header: http.Header{"Content-Type": {"application/json"}, "Ce-Specversion": {"1.0"}, "Ce-Id": {id}, "Ce-Source": {"/s"}, "Ce-Type": {"t"},
			"Ce-Dataschema": {"https://example.com/order.json"}}}
	}
	p.accepted("events", "events-secret", event("1"))
	r.text = mended
	r.reload(p, config.RoleIntake, config.RoleStream)
	p.app.intake.ids.known.Store(&map[namedSchema][]byte{{"/acme/events", "https://example.com/order.json"}: []byte("the id")})
	kept, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Source: "acme/events"})
	if err != nil || len(kept.Items) != 1 {
		t.Fatalf("%+v, %v", kept, err)
	}
	if done, err := p.redrive(kept.Items[0], api.QuarantineRedrive{}); err != nil || done.State != api.StateDone {
		t.Fatalf("%+v, %v", done, err)
	}
	p.accepted("events", "events-secret", event("2"))
	for i, rec := range r.read("events.acme.events", 2) {
		at := slices.IndexFunc(rec.Headers, func(h kgo.RecordHeader) bool { return h.Key == record.SchemaIDHeader })
		if at < 0 || string(rec.Headers[at].Value) != "the id" {
			t.Errorf("record %d: %v", i+1, rec.Headers)
		}
	}
	p.clean()
}

// TestQuarantineIsReadByAnyProcess, but understood only where the sources are.
func TestQuarantineIsReadByAnyProcess(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", newLedger(t), true)
	in := r.run(config.RoleIntake)
	unusable := order("o-1", 1)
	unusable.Body = []byte("not json")
	for range 3 {
		in.accepted("orders", "orders-secret", unusable)
	}
	in.clean()
	p := r.run(config.RoleStream)
	place := api.QuarantinePlace{Team: "acme", Source: "orders"}
	if body, err := p.api.QuarantinedBody(t.Context(), place); err != nil || string(body) != "not json" {
		t.Errorf("body %q, %v", body, err)
	}
	for n, f := 0, (api.QuarantineFilter{Limit: 2}); n == 0 || f.Cursor != ""; n += 2 {
		page, err := p.api.Quarantined(t.Context(), f)
		if err != nil || len(page.Items) == 0 || page.Items[0].Offset != int64(2-n) || n == 0 && (len(page.Items) != 2 || page.Next == "") {
			t.Fatalf("behind %d deliveries: %+v, %v", n, page, err)
		}
		f.Cursor = page.Next
	}
	if _, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Cursor: "x"}); schemas.KindOf(err) != schemas.Invalid {
		t.Errorf("a cursor of another list: %v", err)
	}
	_, err := p.api.RedriveQuarantined(t.Context(), place, api.QuarantineRedrive{Reason: "x"})
	if schemas.KindOf(err) != schemas.Conflict || !strings.HasSuffix(err.Error(), "no intake role, so it cannot make events of deliveries; ask one that runs `forebay serve --roles intake`") {
		t.Errorf("redrive without the intake: %v", err)
	}
	r.text = strings.Replace(r.text, "teams:\n", "operator: {auth: tokens}\nteams:\n", 1)
	withTokens := &quarantineAPI{a: r.app(config.RoleStream)}
	defer withTokens.a.waits.close(t.Context())
	_, err = withTokens.RedriveQuarantined(t.Context(), place, api.QuarantineRedrive{Reason: "x"})
	if err == nil || !strings.Contains(err.Error(), "by a file without operator.auth") {
		t.Errorf("redrive without the intake, which would have no tokens: %v", err)
	}
	// One topic that is missing takes away no other source's.
	if _, err := kadm.NewClient(r.client()).DeleteTopics(t.Context(), "quarantine.acme.github"); err != nil {
		t.Fatal(err)
	}
	if page, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{}); err != nil || len(page.Items) != 3 {
		t.Errorf("without a topic: %+v, %v", page, err)
	}
	if _, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Source: "acme/github"}); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("of the topic that is missing: %v", err)
	}
	p.clean()
}
