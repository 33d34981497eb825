package schemas

import (
	"bytes"
	"testing"
)

// TestActionIDsBeginSo: the bounds of a text hold exactly the ids that begin with it.
func TestActionIDsBeginSo(t *testing.T) {
	t.Parallel()
	in := func(h, low, high [16]byte) bool {
		return bytes.Compare(low[:], h[:]) <= 0 && bytes.Compare(h[:], high[:]) <= 0
	}
	for n := range 200 {
		id := NewActionID("acme.triage", int32(n), "/acme/github", "e", "run")
		h, _ := id.Hash()
		if ActionIDOf(h) != id {
			t.Fatalf("%s encodes to %s", id, ActionIDOf(h))
		}
		other, _ := NewActionID("acme.triage", int32(n), "/acme/github", "f", "run").Hash()
		for length := len("act_"); length <= len(id); length++ {
			low, high, ok := id[:length].Range()
			begins := ActionIDOf(other)[:length] == id[:length]
			if !ok || !in(h, low, high) || in(other, low, high) != begins {
				t.Fatalf("%s: %x..%x, %t; another that begins so: %t", id[:length], low, high, ok, begins)
			}
		}
	}
	for _, text := range []ActionID{"", "act", "act_U", "act_-", "act_" + "00000000000000000000000000" + "0"} {
		if _, _, ok := text.Range(); ok {
			t.Errorf("%q is the beginning of an id", text)
		}
	}
}
