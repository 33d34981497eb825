package trace

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The cases of the W3C's own suite.
func TestParse(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/traceparent.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		ID     string
		Values []string
		Valid  bool
	}
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) != 15 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		parent, ok := Parse(c.Values)
		if ok != c.Valid {
			t.Errorf("%s: valid %t, want %t", c.ID, ok, c.Valid)
		}
		if want := "00-12345678901234567890123456789012-1234567890123456-01"; ok && parent != want {
			t.Errorf("%s: %s, want %s", c.ID, parent, want)
		}
	}
}

func TestParseMore(t *testing.T) {
	t.Parallel()
	const rest = "-12345678901234567890123456789012-1234567890123456-"
	for _, test := range []struct{ value, want string }{
		{"00" + rest + "03", "00" + rest + "03"},
		{"01" + rest + "a1", "00" + rest + "01"}, // only "sampled" of a version to come
		{"01" + rest + "ae", "00" + rest + "00"},
		{"01" + rest + "00", "00" + rest + "00"},
		{"01" + rest + "0000", ""},
		{"00" + rest + "0A", ""},
		{"00-12345678901234567890123456789012-0000000000000000-01", ""},
		{"", ""}, {"00", ""}, {strings.Repeat("-", 55), ""},
	} {
		if got, ok := Parse([]string{test.value}); got != test.want && ok || ok != (test.want != "") {
			t.Errorf("%q: %q, %t, want %q", test.value, got, ok, test.want)
		}
	}
	if _, ok := Parse(nil); ok {
		t.Error("no header is a context")
	}
}

func TestAccept(t *testing.T) {
	t.Parallel()
	const valid = "00-12345678901234567890123456789012-1234567890123456-01"
	for _, test := range []struct {
		name            string
		parents, states []string
		keep            bool
		state           string
	}{
		{"both", []string{valid}, []string{"a=1", "b=2"}, true, "a=1,b=2"},
		{"no state", []string{valid}, nil, true, ""},
		{"long state", []string{valid}, []string{strings.Repeat("x", 513)}, true, ""},
		{"control character", []string{valid}, []string{"a=\x80"}, true, ""},
		{"state without parent", nil, []string{"a=1"}, false, ""},
		{"state of a bad parent", []string{"x"}, []string{"a=1"}, false, ""},
	} {
		parent, state := Accept(test.parents, test.states, true)
		if (parent == valid) != test.keep || state != test.state {
			t.Errorf("%s: %q %q", test.name, parent, state)
		}
		if got, ok := Parse([]string{parent}); !ok || got != parent {
			t.Errorf("%s: accepted %q does not parse", test.name, parent)
		}
	}
	if parent, state := Accept([]string{valid}, []string{"a=1"}, false); parent[3:35] == valid[3:35] || Sampled(parent) || state != "" {
		t.Errorf("of a stranger: %q %q", parent, state)
	}
	if a, b := New(), New(); a[3:35] == b[3:35] || a[36:52] == b[36:52] {
		t.Errorf("two new traces share an id: %s %s", a, b)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-12345678901234567890123456789012-1234567890123456-01")
	f.Add("cc-12345678901234567890123456789012-1234567890123456-01-what")
	f.Fuzz(func(t *testing.T, s string) {
		parent, ok := Parse([]string{s})
		if !ok {
			return
		}
		if again, ok := Parse([]string{parent}); !ok || again != parent {
			t.Errorf("%q gave %q, which does not parse", s, parent)
		}
	})
}

func TestID(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if id := ID(parent); hex.EncodeToString(id[:]) != parent[3:35] {
		t.Errorf("%x", id)
	}
	for _, bad := range []string{"", parent[:54], strings.Replace(parent, "0af", "0AF", 1), "00-00000000000000000000000000000000-b7ad6b7169203331-01"} {
		if id := ID(bad); id != [16]byte{} {
			t.Errorf("%q: %x", bad, id)
		}
	}
}
