package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// TestReloadKeepsBodyLimitsOfTheStream: what reads, sends and produces was made for the largest bodies of the start, so a
// process takes no file with larger ones, whatever its role.
func TestReloadKeepsBodyLimitsOfTheStream(t *testing.T) {
	t.Parallel()
	r := &deployment{t: t, text: fmt.Sprintf(deploymentText, "127.0.0.1:1", `postgres: {url: "postgres://127.0.0.1:1/none"}`, "http://127.0.0.1:1")}
	a := r.app(config.RoleStream)
	defer a.waits.close(t.Context())
	before := r.text
	for _, tt := range []struct{ name, old, text, want string }{
		{"a source's own", "preset: generic", "preset: generic\n        max_body: 2MiB", "larger bodies for events.acme.orders, quarantine.acme.orders: "},
		{"the largest of all", "      orders:", "      big: {preset: github, secrets: [x], max_body: 26MiB}\n      orders:", "bodies of 27262976 bytes, where the largest at the start was "},
	} {
		r.text = strings.Replace(before, tt.old, tt.text, 1)
		running := a.file()
		if err := a.Reload(r.load(config.RoleStream)); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "a restart of all processes, those with the stream role first") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if a.file() != running {
			t.Errorf("%s: the file is in force all the same", tt.name)
		}
	}
	for _, text := range []string{strings.Replace(before, "preset: generic", "preset: generic\n        max_body: 1KiB", 1), before} {
		r.text = text
		if err := a.Reload(r.load(config.RoleStream)); err != nil {
			t.Error(err)
		}
	}
}
