package dev

import (
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

func TestWaitsText(t *testing.T) {
	t.Parallel()
	for want, counts := range map[string][]api.AttentionCount{
		"nothing waits for you":             {{Kind: "parked"}, {Kind: "dead_letter"}},
		"1 thing waits for you":             {{Kind: "parked"}, {Kind: "dead_letter", Count: 1}},
		"12 things wait for you":            {{Kind: "parked", Count: 5}, {Kind: "dead_letter", Count: 7}},
		"10001 or more things wait for you": {{Kind: "parked", Count: 10_000, More: true}, {Kind: "dead_letter", Count: 1}},
		"1 or more things wait for you":     {{Kind: "parked", Count: 1, More: true}},
	} {
		if got := waitsText(counts); got != want {
			t.Errorf("%v: %q, want %q", counts, got, want)
		}
	}
}
