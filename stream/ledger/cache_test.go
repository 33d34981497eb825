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
			c.put(k, model[k], make([]gate.Waiting, max(0, r.IntN(30)-15)))
			if c.find(k) == nil {
				t.Fatalf("%v is gone at once", k)
			}
		case 3:
			c.drop(k)
			if c.find(k) != nil {
				t.Fatalf("%v is still there", k)
			}
		}
		if r.IntN(3) == 0 {
			c.shed()
			if c.waiting > waitingPerLine*50 {
				t.Fatalf("%d events wait in the cache", c.waiting)
			}
		}
		n, waiting := 0, 0
		var last *cachedLine
		for l := c.oldest; l != nil; l = l.newer {
			if n++; n > 50 || l.older != last || c.lines[l.key] != l {
				t.Fatalf("the list is broken at %v", l.key)
			}
			last = l
			waiting += len(l.waiting)
		}
		if waiting != c.waiting {
			t.Fatalf("%d events wait in the cache, %d counted", waiting, c.waiting)
		}
		if n != len(c.lines) || last != c.newest || c.hand != nil && c.lines[c.hand.key] != c.hand {
			t.Fatalf("%d lines in the list, %d in the map", n, len(c.lines))
		}
	}
}

// More events than may wait in the cache are not kept there, the lines that were not used lately go first, and a dirty one stays.
func TestLineCacheShedsWhatWaits(t *testing.T) {
	t.Parallel()
	c := newLineCache(10)
	at := func(name string) gate.VersionLineKey { return gate.VersionLineKey{Entity: schemas.EntityKey(name)} }
	c.put(at("dirty"), nil, make([]gate.Waiting, 15)).dirtySince = 1
	c.put(at("used"), nil, make([]gate.Waiting, 15))
	c.put(at("idle"), nil, make([]gate.Waiting, 15))
	c.put(at("nothing waits"), &gate.VersionLine{}, nil)
	c.find(at("used"))
	c.shed()
	if c.find(at("idle")) != nil || c.find(at("used")) == nil || c.find(at("nothing waits")) == nil {
		t.Errorf("%d lines with %d events are kept", len(c.lines), c.waiting)
	}
	c.put(at("large"), nil, make([]gate.Waiting, 100))
	c.find(at("large"))
	c.shed()
	if c.waiting != 15 || c.find(at("dirty")) == nil {
		t.Errorf("%d lines with %d events are kept", len(c.lines), c.waiting)
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
