package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest/drift"
	"github.com/forebay-io/forebay/ingest/verify"
)

// A sender changes what it sends: the report, and the metric, say which field, over a reload.
func TestDriftOfLiveEvents(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", nil, true)
	p := r.run(config.RoleIntake)
	send := func(rev int, more string) {
		t.Helper()
		p.accepted("orders", "orders-secret", &verify.Request{Method: "POST", Body: fmt.Appendf(nil, `{"type":"order","order":"o","rev":%d,%s}`, rev, more),
			Header: http.Header{"Content-Type": {"application/json"}, "X-Event-Id": {fmt.Sprint(rev)}}})
	}
	for rev := range drift.Learn {
		send(rev, `"total":5`)
	}
	if d, err := p.api.DriftReport(t.Context()); err != nil || len(d.Items) != 0 || len(d.Types) != 1 || d.Types[0].Learning || d.Types[0].Samples != drift.Learn {
		t.Fatalf("%+v, %v", d, err)
	}
	r.reload(p, config.RoleIntake)
	// One body a second is looked at.
	var got []string
	for rev := drift.Learn; len(got) == 0; rev++ {
		send(rev, `"total":"5.00","currency":"EUR"`)
		d, err := p.api.DriftReport(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range d.Items {
			got = append(got, strings.Join([]string{i.Team, i.Source, i.Type, i.Field, i.Change, strings.Join(i.Was, "|"), strings.Join(i.Is, "|")}, " "))
		}
	}
	if diff := cmp.Diff([]string{"acme orders order /currency new  string", "acme orders order /total kind number string"}, got); diff != "" {
		t.Error(diff)
	}
	if _, series := counted(t, p.app.registry, "forebay_ingest_drift_fields", nil); series != 2 {
		t.Errorf("the metric has %d series", series)
	}
	p.clean()
}
