package provider_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
)

// TestConfigNames pins the names of the config file, which users have written down.
func TestConfigNames(t *testing.T) {
	t.Parallel()
	const text = `
verify: {algorithm: sha256, signature_header: X-Signature, prefix: "sha256=", encoding: hex, signed: "{body}"}
event:
  id: header:X-Event-Id
  type: /type
  entity: [/order/id]
  version: {from: /order/rev, kind: sequence, clock: order, resolution: 1ms, rank: {from: /order/state, order: [open, paid]}}
  payload: snapshot
  deleted: {from: /gone, is: ["true"]}
  first: 1
  volatile: [/attempt]
  keep_headers: [X-Extra]
`
	var got struct {
		Verify *verify.Params
		Event  *provider.EventConfig
	}
	d := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	d.KnownFields(true)
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	first := int64(1)
	want := &provider.EventConfig{ID: "header:X-Event-Id", Type: "/type", Entity: []string{"/order/id"}, Payload: "snapshot",
		Version: &provider.VersionConfig{From: "/order/rev", Kind: "sequence", Clock: "order", Resolution: time.Millisecond,
			Rank: &provider.RankConfig{From: "/order/state", Order: []string{"open", "paid"}}},
		Deleted: &provider.DeletedConfig{From: "/gone", Is: []string{"true"}}, First: &first,
		Volatile: []string{"/attempt"}, KeepHeaders: []string{"X-Extra"}}
	if diff := cmp.Diff(want, got.Event); diff != "" {
		t.Error(diff)
	}
	if err := got.Verify.Validate(); err != nil {
		t.Error(err)
	}
	got.Event.Version.Resolution = 0
	s := compile(t, provider.Config{Preset: "generic", Verify: got.Verify, Event: got.Event})
	e, err := s.Event(request(`{"type":"t","gone":true,"order":{"id":1,"rev":1,"state":"paid"}}`, "X-Event-Id: i"), received)
	if err != nil || brief(e) != "i | t | 1 | order sequence 00000000000000000001+00002 | snapshot deleted" || e.First == nil || *e.First != 1 {
		t.Errorf("%+v %v", e, err)
	}
}
