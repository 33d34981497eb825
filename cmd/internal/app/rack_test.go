package app

import (
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// What a subscription reads it fetches with the rack of its process, by which a broker names a copy in the same zone. (Single records
// through pointers are read from the leader.)
func TestFetchesNameTheRack(t *testing.T) {
	t.Parallel()
	agent := newAgent(t)
	r := deploy(t, agent.URL, database(t), true)
	r.text = strings.Replace(r.text, "kafka: {", "kafka: {rack: zone-b, ", 1)
	var mu sync.Mutex
	racks := map[string]int{}
	r.cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		racks[req.(*kmsg.FetchRequest).Rack]++
		return nil, nil, false
	})
	p := r.start(config.RoleIntake, config.RoleStream)
	p.ready()
	p.accepted("orders", "orders-secret", order("o", 1))
	agent.wait(t, 1)
	mu.Lock()
	defer mu.Unlock()
	if len(racks) != 1 || racks["zone-b"] == 0 {
		t.Errorf("fetches by the rack that they name: %v", racks)
	}
}
