package app

import (
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// TestSourceOfATopic: also of a topic whose source has left the file.
func TestSourceOfATopic(t *testing.T) {
	t.Parallel()
	file := &config.Config{Teams: map[string]*config.Team{"acme": {Sources: map[string]*config.Source{"github": {Topic: "hooks"}}}}}
	for topic, want := range map[string]string{
		"hooks": "/acme/github", "events.pay.stripe": "/pay/stripe", "events.pay.stripe.v2": "/pay/stripe", "orders": "orders", "shop.orders": "shop.orders", "my.own.topic": "my.own.topic",
		"events..": "events..",
	} {
		if got := sourceIn(file, topic); got != want {
			t.Errorf("%s is of %q, want %q", topic, got, want)
		}
	}
}
