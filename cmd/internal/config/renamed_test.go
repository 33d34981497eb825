package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A file of before is told each key's name of now, with its line, and nothing that follows from the name alone.
func TestRenamedKeys(t *testing.T) {
	t.Parallel()
	const file = `version: 1
kafka:
  brokers: ["127.0.0.1:9092"]
  batch_pace: 20ms
postgres:
  url: postgres://u:p@127.0.0.1/db
  max_conns: 8
listen:
  agents: 127.0.0.1:8081
  public_url: https://hooks.example.com
agents: {public_url: "https://agents.example.com", secrets: ["0123456789abcdef0123456789abcdef"]}
intake:
  small:
    body: 64KiB
  per_address:
    bytes: 256MiB
teams:
  acme:
    sources:
      orders:
        preset: generic
        secrets: [hunter2hunter2]
        verify: {signature_header: X-Signature, signed: "{url}{body}"}
        event:
          id: /id
          type: /type
          entity: [/order]
          headers: [X-Request-Id]
          version: {from: /rev, kind: sequence}
          payload: snapshot
        rate:
          per_second: 5
        backfill:
          url: https://shop.example.com/{from}/{to}
          rate: {per_second: 5, burst: 3}
        thin: {url: "https://shop.example.com/{id}", rate: {per_second: 7}}
    destinations:
      coder:
        type: http
        url: https://coder.example.com
        rate: {per_second: 5}
        long:
          deadline: 30m
          most: 5
`
	_, problems := load(file, nil, nil, Options{})
	const orders = "teams.acme.sources.orders."
	want := []string{
		"forebay.yaml:4: kafka.batch_pace: is kafka.batch_wait now",
		"forebay.yaml:7: postgres.max_conns: is postgres.connections now",
		"forebay.yaml:10: listen.public_url: is intake.public_url now",
		"forebay.yaml:14: intake.small.body: is small.max_body now",
		"forebay.yaml:16: intake.per_address.bytes: is per_address.memory now",
		"forebay.yaml:28: " + orders + "event.headers: is event.keep_headers now",
		"forebay.yaml:32: " + orders + "rate.per_second: is rate.limit with per: 1s now",
		"forebay.yaml:35: " + orders + "backfill.rate.per_second: is rate.limit with per: 1s now",
		"forebay.yaml:36: " + orders + "thin.rate.per_second: is rate.limit with per: 1s now",
		"forebay.yaml:41: teams.acme.destinations.coder.rate.per_second: is rate.limit with per: 1s now",
		"forebay.yaml:44: teams.acme.destinations.coder.long.most: is long.concurrency now",
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), problems.Error()); diff != "" {
		t.Error(diff)
	}
	told := 0
	for of, keys := range renamedKeys {
		told += len(keys)
		for old, r := range keys {
			declared := func(name string) bool {
				return slices.ContainsFunc(shapes[of].fields, func(f field) bool { return f.name == name })
			}
			if declared(old) || !strings.Contains(r.now, ".") && !declared(r.now) {
				t.Errorf("%s: %s is not what %s is now", of, r.now, old)
			}
		}
	}
	if told != len(want)-2 { // of Rate there are three
		t.Errorf("%d keys are renamed, and the file above has %d of them", told, len(want)-2)
	}
}
