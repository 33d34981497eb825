package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// A body that does not fit is kept as it came, and becomes its event once the schema is mended by a reload: with the schema's id then, as
// what fits from the beginning.
func TestMisfitBecomesItsEventOnceItsSchemaIsMended(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	checked := func(kind string) string {
		return fmt.Sprintf(`entity: [/order], version: {from: /rev, kind: sequence}}
        json_schema: {check: quarantine, own: '{"$id": "https://example.com/order", "properties": {"order": {"type": "string"}, "rev": {"type": "%s"}}}'}`, kind)
	}
	plain := r.text
	with := func(kind string) string {
		return strings.Replace(plain, "entity: [/order], version: {from: /rev, kind: sequence}}", checked(kind), 1)
	}
	r.text = with("string")
	p := r.run(config.RoleIntake)
	p.accepted("orders", "orders-secret", order("o-1", 1))
	kept, err := p.api.Quarantined(t.Context(), api.QuarantineFilter{Team: "acme", Source: "orders"})
	if err != nil || len(kept.Items) != 1 || kept.Items[0].Reason != "schema_misfit" || kept.Items[0].Detail != "the body /rev is a number, not a string" {
		t.Fatalf("%+v, %v", kept, err)
	}
	place := api.QuarantinePlace{Team: "acme", Source: "orders", Partition: kept.Items[0].Partition, Offset: kept.Items[0].Offset}
	ask := api.QuarantineRedrive{Reason: "the schema is mended", By: "me"}
	if _, err := p.api.RedriveQuarantined(t.Context(), place, ask); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), "/rev is a number, not a string; fix the source's mapping or its schema") {
		t.Errorf("redrive before the schema is mended: %v", err)
	}
	r.text = with("integer")
	r.reload(p, config.RoleIntake)
	done, err := p.api.RedriveQuarantined(t.Context(), place, ask)
	if err != nil || done.State != api.StateDone {
		t.Fatalf("%+v, %v", done, err)
	}
	// This process has no ledger, so no audit: who has asked, when and why is kept with the delivery.
	if _, err := p.api.Changes(t.Context(), api.AuditFilter{Limit: 1}); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("the audit of a process without the stream role: %v", err)
	}
	kept, err = p.api.Quarantined(t.Context(), api.QuarantineFilter{Team: "acme", Source: "orders"})
	if err != nil || len(kept.Items) != 1 || kept.Items[0].Redriven == nil {
		t.Fatalf("%+v, %v", kept, err)
	}
	if m := kept.Items[0].Redriven; m.By != ask.By || m.Reason != ask.Reason || time.Since(m.At) > time.Minute {
		t.Errorf("kept with the delivery: %+v", m)
	}
	p.accepted("orders", "orders-secret", order("o-1", 2))
	r.text = plain
	r.reload(p, config.RoleIntake)
	p.accepted("orders", "orders-secret", order("o-1", 3))

	schemaOf := map[string]string{}
	for _, rec := range r.read(ordersTopic, 3) {
		e, err := record.Decode(rec)
		if err != nil {
			t.Fatal(err)
		}
		schemaOf[e.ID] = e.DataSchema
	}
	for id, want := range map[string]string{"o-1-1": "https://example.com/order", "o-1-2": "https://example.com/order", "o-1-3": ""} {
		if schemaOf[id] != want {
			t.Errorf("%s has dataschema %q, want %q", id, schemaOf[id], want)
		}
	}
	p.clean()
}
