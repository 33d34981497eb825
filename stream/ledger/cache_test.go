package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// Random puts, finds and drops against a map: never more than the bound, never another line than was put, the list whole.
func TestLineCacheIsBoundedAndRight(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	c := newLineCache(50)
	model := map[gate.VersionLineKey]*gate.VersionLine{}
	for range 200_000 {
		k := gate.VersionLineKey{Entity: schemas.EntityKey(fmt.Sprint(r.IntN(120)))}
		switch r.IntN(4) {
		case 0, 1:
			if l := c.find(k); l != nil && l.line != model[k] {
				t.Fatalf("%v is %p, not %p", k, l.line, model[k])
			}
		case 2:
			model[k] = &gate.VersionLine{}
			c.put(k, model[k], nil)
			if c.find(k) == nil {
				t.Fatalf("%v is gone at once", k)
			}
		case 3:
			c.drop(k)
			if c.find(k) != nil {
				t.Fatalf("%v is still there", k)
			}
		}
		n := 0
		var last *cachedLine
		for l := c.oldest; l != nil; l = l.newer {
			if n++; n > 50 || l.older != last || c.lines[l.key] != l {
				t.Fatalf("the list is broken at %v", l.key)
			}
			last = l
		}
		if n != len(c.lines) || last != c.newest || c.hand != nil && c.lines[c.hand.key] != c.hand {
			t.Fatalf("%d lines in the list, %d in the map", n, len(c.lines))
		}
	}
}

// What is used stays while others come and go.
func TestLineCacheKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	c := newLineCache(10)
	hot := gate.VersionLineKey{Entity: "hot"}
	c.put(hot, &gate.VersionLine{}, nil)
	for i := range 1000 {
		c.put(gate.VersionLineKey{Entity: schemas.EntityKey(fmt.Sprint(i))}, &gate.VersionLine{}, nil)
		if c.find(hot) == nil {
			t.Fatalf("gone after %d others", i)
		}
	}
}
