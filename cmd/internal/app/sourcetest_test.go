package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// TestReadersOfATest: subscriptions of the source's team that take the type, and other teams that it is shared with, once and by the team alone.
func TestReadersOfATest(t *testing.T) {
	t.Parallel()
	var a App
	a.current.Store(&config.Config{Teams: map[string]*config.Team{
		"acme": {Sources: map[string]*config.Source{"orders": {Share: []string{"pay"}}}, Subscriptions: map[string]*config.Subscription{
			"all": {Sources: []string{"orders"}}, "issues": {Sources: []string{"orders"}, Types: []string{"com.github.*"}}, "other": {Sources: []string{"carts"}}}},
		"pay": {Subscriptions: map[string]*config.Subscription{
			"risk": {Sources: []string{"acme/orders"}}, "tax": {Sources: []string{"acme/orders"}}, "issues": {Sources: []string{"acme/orders"}, Types: []string{"x"}}}},
	}})
	for eventType, want := range map[string][]string{"order.changed": {"acme.all", "team pay"}, "com.github.issues": {"acme.all", "acme.issues", "team pay"}} {
		if diff := cmp.Diff(want, sourceTests{&a}.readers("acme", "orders", eventType)); diff != "" {
			t.Errorf("%s: %s", eventType, diff)
		}
	}
	delete(a.file().Teams["acme"].Subscriptions, "all")
	delete(a.file().Teams, "pay")
	if got := (sourceTests{&a}).readers("acme", "orders", "order.changed"); got == nil || len(got) != 0 {
		t.Errorf("of nobody: %v", got)
	}
}
