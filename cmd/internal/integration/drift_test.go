package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// driftRow is an item of `schemas drift -o json`.
type driftRow struct {
	Source, Type, Field, Change string
	Was, Is                     []string
}

// TestDriftIsShown: a sender changes its bodies, and `schemas drift` says which fields, of the source that changed and of no other.
func TestDriftIsShown(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	p := r.serve("intake")
	sent := 0
	send := func(more string) {
		t.Helper()
		sent++
		d := order(fmt.Sprintf("o-%d", sent), 1)
		d.body = fmt.Appendf(nil, `{"type":"com.shop.order.changed","order":{"id":%q,"rev":1,%s}}`, d.entity, more)
		r.deliver(d)
	}
	if out, err := r.try(p.operator, "schemas", "drift"); err != nil || strings.Contains(string(out), "total") {
		t.Errorf("%s %v", out, err)
	}
	for range 100 {
		send(`"total":5,"note":null`)
	}
	r.deliver(issue(1, 1, 1))
	if rows := r.drift(p); len(rows) > 0 {
		t.Errorf("nothing has changed, and it says %+v", rows)
	}
	var rows []driftRow
	until(t, "the changed fields are shown", func() bool { // one body a second is looked at
		send(`"total":"5.00","note":null,"lines":[{"sku":"a"}]`)
		rows = r.drift(p)
		return len(rows) > 0
	})
	of := "com.shop.order.changed"
	want := []driftRow{{"orders", of, "/order/lines", "new", nil, []string{"array"}}, {"orders", of, "/order/total", "kind", []string{"number"}, []string{"string"}}}
	if d := cmp.Diff(want, rows); d != "" {
		t.Error(d)
	}
	out, err := r.try(p.operator, "schemas", "drift")
	if err != nil || !slices.ContainsFunc(strings.Split(string(out), "\n"), func(line string) bool {
		return containsAll(line, r.team+"/orders", of, "/order/total", "kind", "number", "string")
	}) {
		t.Errorf("%s %v", out, err)
	}
}

func (r *deployment) drift(p *process) []driftRow {
	r.t.Helper()
	var page struct{ Items []driftRow }
	if err := p.get("/v1/schemas/drift", nil, &page); err != nil {
		r.t.Fatal(err)
	}
	return page.Items
}
