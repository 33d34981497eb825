package app

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// What a subscription reads it fetches with the rack of its process, by which a broker names a copy in the same zone. (Single records
// through pointers are read from the leader.)
func TestFetchesNameTheRack(t *testing.T) {
	t.Parallel()
	r := deploy(t, "http://127.0.0.1:1", &ledgerPlace{url: "postgres://127.0.0.1:1/none", schema: "forebay"}, false)
	r.text = strings.Replace(r.text, "kafka: {", "kafka: {rack: zone-b, ", 1)
	cl := r.client(KafkaOptions(r.load(config.RoleStream), config.RoleStream)...)
	if rack := cl.OptValue(kgo.Rack); rack != "zone-b" {
		t.Errorf("fetches name rack %v", rack)
	}
}
