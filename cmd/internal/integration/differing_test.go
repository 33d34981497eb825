package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestTwoFilesOfOneSubscription: two processes serve one subscription, one by a file that filters and calls another agent. Both say so, with who
// they are and in which keys they differ; with one file each they are quiet again.
func TestTwoFilesOfOneSubscription(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	one := r.serve("intake,stream")
	text, err := os.ReadFile(r.config)
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(r.dir, "old.yaml")
	other := newAgent(t, 0)
	before := strings.Replace(string(text), "shop: {type: http, url: \""+r.agent.URL, "shop: {type: http, url: \""+other.URL, 1)
	before = strings.Replace(before, "sources: [orders]\n", "sources: [orders]\n        types: [order.closed]\n", 1)
	if err := os.WriteFile(old, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	left := r.launch("serve", "-c", old, "--roles", "intake,stream")
	left.waitReady(2 * time.Minute)
	for _, p := range []*process{one, left} {
		row := r.waitAttention(p, map[string]int{"differing_config": 1})["differing_config"][0]
		if row.ID != r.team+".fulfil" || row.Reason != "rollout" {
			t.Errorf("%+v", row)
		}
		for _, want := range []string{"/" + fmt.Sprint(one.cmd.Process.Pid), "/" + fmt.Sprint(left.cmd.Process.Pid),
			": teams." + r.team + ".destinations.shop.url, ", "teams." + r.team + ".subscriptions.fulfil.types[0]"} {
			if !strings.Contains(row.Detail, want) {
				t.Errorf("no %s in %s", want, row.Detail)
			}
		}
	}
	left.stop()
	r.serve("stream")
	r.waitAttention(one, map[string]int{})
}
