package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// TestReloadKeepsBodyLimitsOfTheStream: what reads, sends and produces was made for the largest bodies of the start, so a
// process takes no source with larger ones, whatever its role, and everything else.
func TestReloadKeepsBodyLimitsOfTheStream(t *testing.T) {
	t.Parallel()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", `postgres: {url: "postgres://127.0.0.1:1/none"}`, "http://127.0.0.1:1")}
	a := r.app(config.RoleStream)
	defer a.waits.close(t.Context())
	before := r.text
	for _, tt := range []struct{ name, old, text, waits string }{
		{"a source's own", "preset: generic", "preset: generic\n        max_body: 2MiB", "teams.acme.sources.orders.max_body"},
		{"the largest of all", "      orders:", "      big: {preset: github, secrets: [x], max_body: 26MiB}\n      orders:", "teams.acme.sources.big"},
	} {
		r.text = strings.Replace(before, tt.old, tt.text, 1)
		if err := a.Reload(r.load(config.RoleStream)); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if rows := a.waiting.rows(); len(rows) != 1 || rows[0].ID != tt.waits || !strings.Contains(rows[0].Detail, "larger bodies need `forebay topics apply`, and a restart of all processes, those with the stream role first") {
			t.Errorf("%s: what waits is %+v", tt.name, rows)
		}
		if orders, big := a.file().MaxBody("acme", "orders"), a.file().Teams["acme"].Sources["big"]; orders != 1<<20 || big != nil {
			t.Errorf("%s: it is in force all the same: %d %v", tt.name, orders, big)
		}
	}
	for _, text := range []string{strings.Replace(before, "preset: generic", "preset: generic\n        max_body: 1KiB", 1), before} {
		r.text = text
		if err := a.Reload(r.load(config.RoleStream)); err != nil {
			t.Error(err)
		}
	}
}
