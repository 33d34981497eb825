package app

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/gate"
)

const countedFile = `
version: 1
teams:
  acme:
    sources:
      orders:
        preset: generic
        secrets: [s3cret-of-the-test]
        verify: {signature_header: X-Signature}
        event:
          id: "cel:string(body.run) + '/' + string(body.rev)"
          type: "cel:'order.changed'"
          entity: [/order]
          version: {from: /rev, kind: sequence, epoch: /run}
          payload: snapshot
    destinations: {out: {type: log}}
    subscriptions:
      all: {sources: [orders], actions: [{name: run, to: out}]}
`

// TestEpochsFromTheFileToTheGate: a provider restores a backup, counts from 1 again and says so; what it had sent before
// comes late.
func TestEpochsFromTheFileToTheGate(t *testing.T) {
	t.Parallel()
	_, source := fromFile(t, countedFile, "orders")
	texts, got := toTheGate(t, source, gate.Policy{GapWait: time.Minute}, `{"order":7,"run":1,"rev":41}`, `{"order":7,"run":1,"rev":43}`,
		`{"order":7,"run":2,"rev":1}`, `{"order":7,"run":1,"rev":42}`, `{"order":7,"run":2,"rev":2}`)
	if diff := cmp.Diff([]string{"e000001:00000000000000000041", "e000001:00000000000000000043", "e000002:00000000000000000001",
		"e000001:00000000000000000042", "e000002:00000000000000000002"}, texts); diff != "" {
		t.Error(diff)
	}
	want := []string{"0 applied/first", "1 buffered/gap", "-1 applied/gap_skipped", "2 applied/new_epoch", "3 stale/older", "4 applied/next"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A mistake in the epoch is shown at its key.
func TestCheckNamesTheLineOfAnEpoch(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[string]string{
		"run":                  "is not a JSON Pointer",
		"sha256:body":          "is the body's hash, which is no integer",
		`"cel:body.run > 1"`:   "is an expression of type bool",
		`"cel:double(body.r)"`: "is an expression of type double",
	} {
		file := strings.Replace(countedFile, "epoch: /run", "epoch: "+wrong, 1)
		c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(file), Embedded: true})
		if err != nil {
			t.Fatal(err)
		}
		problems := Check(c, nil)
		if len(problems) != 1 || !strings.Contains(problems[0].String(), "sources.orders.event.version.epoch") || !strings.Contains(problems[0].String(), want) {
			t.Errorf("%s: %v, want %q", wrong, problems, want)
		}
	}
}
