package reader

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

func TestGlobs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		patterns string
		event    string
		want     bool
	}{
		{"", "anything", true},
		{"a.b", "a.b", true},
		{"a.b", "a.bc", false},
		{"a.b", "xa.b", false},
		{"a.b", "aXb", false},
		{"com.github.issues.*", "com.github.issues.opened", true},
		{"com.github.issues.*", "com.github.issues.a.b.c", true},
		{"com.github.issues.*", "com.github.issues.", true},
		{"com.github.issues.*", "com.github.issues", false},
		{"com.github.issues.*", "xcom.github.issues.opened", false},
		{"com.github.issue*", "com.github.issue_comment.created", true},
		{"*.opened", "com.github.issues.opened", true},
		{"*.opened", "com.github.issues.opened.x", false},
		{"com.*.opened", "com.opened", false},
		{"com.*.opened", "com..opened", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "acb", false},
		{"*", "", true},
		{"**", "x", true},
		{"x y", "y", true},
		{"x y", "z", false},
		{"[a]", "a", false},
		{"a?c", "abc", false},
	} {
		if got := Globs(strings.Fields(tt.patterns))(tt.event, "/acme/x"); got != tt.want {
			t.Errorf("Globs(%q)(%q) = %v", tt.patterns, tt.event, got)
		}
	}
}

// naive matches by trying everything, byte by byte.
func naive(pattern, s string) bool {
	if pattern == "" {
		return s == ""
	}
	if pattern[0] == '*' {
		return naive(pattern[1:], s) || s != "" && naive(pattern, s[1:])
	}
	return s != "" && s[0] == pattern[0] && naive(pattern[1:], s[1:])
}

func FuzzGlob(f *testing.F) {
	f.Add("com.github.*", "com.github.issues.opened")
	f.Add("a*b*a", "abaXba")
	f.Add("*ab*ab*", "abab")
	f.Add("a*a", "a")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 12 || len(s) > 24 {
			return // the naive matcher is exponential
		}
		if got, want := parseGlob(pattern).match(s), naive(pattern, s); got != want {
			t.Errorf("glob %q on %q: %v, naive says %v", pattern, s, got, want)
		}
	})
}

// A replay of some events wants these, by source and id, as far as its other conditions want them.
func TestWantsNamedEvents(t *testing.T) {
	t.Parallel()
	record := func(source, id string) *ledger.Record {
		return &ledger.Record{Source: source, ID: id, Type: "order", Record: gate.Record{Key: schemas.NewEventKey(source, id)}}
	}
	broken := record("/acme/orders", "1")
	broken.Broken = gate.ReasonUndecodable
	wants := Wants(ledger.ReplayFilter{Types: []string{"ord*"}, Events: []ledger.ReplayEvent{{Source: "/acme/orders", ID: "1"}, {Source: "/acme/orders", ID: "2"}}})
	other := record("/acme/orders", "2")
	other.Type = "refund"
	for name, tt := range map[string]struct {
		r    *ledger.Record
		want bool
	}{
		"one of them": {record("/acme/orders", "1"), true}, "the other": {record("/acme/orders", "2"), true}, "a third": {record("/acme/orders", "3"), false},
		"of another source": {record("/acme/refunds", "1"), false}, "of another type": {other, false}, "no event": {broken, false},
	} {
		if wants(tt.r) != tt.want {
			t.Error(name)
		}
	}
}
