package provider_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
)

// TestTypesOfPresets: what a source's events can be called.
func TestTypesOfPresets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cfg    provider.Config
		has    []string
		others string
	}{
		{provider.Config{Preset: "github"}, []string{"com.github.issues.*", "com.github.push", "com.github.create.*", "com.github.star.*"}, "com.github.*"},
		{provider.Config{Preset: "slack"}, []string{"com.slack.message.*", "com.slack.message", "com.slack.app_mention"}, "com.slack.*"},
		{provider.Config{Preset: "shopify"}, []string{"com.shopify.orders.*", "com.shopify.app_subscriptions.update", "com.shopify.customer.tags_added", "com.shopify.orders.delete"}, "com.shopify.*"},
		{provider.Config{Preset: "stripe"}, []string{"com.stripe.*"}, "com.stripe.*"},
		{provider.Config{Preset: "standard-webhooks"}, nil, "*"},
		{provider.Config{Preset: "generic", Event: &provider.EventConfig{Type: "/type"}}, nil, "*"},
		{provider.Config{Preset: "github", Event: &provider.EventConfig{Type: "/kind"}}, nil, "*"},
	} {
		known, others := tt.cfg.Types()
		if others != tt.others || (tt.has == nil) != (known == nil) {
			t.Errorf("%s: %q, others %q", tt.cfg.Preset, known, others)
		}
		for _, want := range tt.has {
			if !slices.Contains(known, want) {
				t.Errorf("%s lacks %s: %q", tt.cfg.Preset, want, known)
			}
		}
	}
}

// TestTypesOfRulesThatStandForMany: no event of Shopify is called com.shopify.orders, though the rule is.
func TestTypesOfRulesThatStandForMany(t *testing.T) {
	t.Parallel()
	known, _ := provider.Config{Preset: "shopify"}.Types()
	for _, typ := range known {
		if strings.Count(typ, ".") < 3 {
			t.Errorf("%s is known, which no event has", typ)
		}
	}
}

func TestGlobsMeet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"", "", true}, {"", "*", true}, {"", "a", false},
		{"issues.*", "com.github.issues.*", false}, {"*issues.*", "com.github.issues.*", true},
		{"com.github.issues.opened", "com.github.issues.*", true}, {"com.github.*", "com.github.push", true},
		{"com.github.issue.*", "com.github.issues.*", false}, {"a*c", "ab*", true}, {"a*c", "b*", false},
		{"*a", "*b", false}, {"a*", "b*", false}, {"*x*", "*y*", true}, {"ab*", "a*b", true}, {"abc", "a*b", false},
	} {
		if got := provider.GlobsMeet(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q: %t", tt.a, tt.b, got)
		}
		if got := provider.GlobsMeet(tt.b, tt.a); got != tt.want {
			t.Errorf("%q and %q: %t", tt.b, tt.a, got)
		}
	}
}
