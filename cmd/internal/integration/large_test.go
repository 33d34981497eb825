package integration

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestLargeDelivery sends a body of 24 MiB, near the most that GitHub sends, through intake, topic, gate and sink:
// the topic's limit and every client follow the source's. Its
// content does not compress.
func TestLargeDelivery(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{})
		p := r.serve("intake,stream")
		large := largeIssue(24 << 20)
		r.deliver(large)
		r.agent.waitActed(t, 1, 3*time.Minute)
		judge(r.sender.acceptedByID(), r.agent.snapshot()).require(t)
		raw, err := r.try(p.operator, "inbox", "raw", r.team+"/triage/github/"+large.id)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(raw, large.body) {
			t.Errorf("inbox raw gave %d bytes, not the %d that were sent", len(raw), len(large.body))
		}
	})
}

// largeIssue is an issue whose text fills the body up to size.
func largeIssue(size int) delivery {
	d := issue(7, 1, 1)
	random := make([]byte, size*3/4-1024)
	rand.NewChaCha8([32]byte{1}).Read(random)
	text := base64.StdEncoding.EncodeToString(random)
	d.body = fmt.Appendf(nil, `{"action":"edited","issue":{"number":1,"updated_at":"2026-07-01T12:00:01Z","body":%q},"repository":{"id":7}}`, text)
	d.id = bodyID(d.body)
	return d
}
