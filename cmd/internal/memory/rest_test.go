package memory

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

var kept [][]byte

// What a burst has left is given back once the process has come to rest, once, and not before.
func TestRestGivesBack(t *testing.T) {
	r := &rest{}
	r.look(lookInterval)
	for range 200 {
		kept = append(kept, make([]byte, 1<<20))
	}
	kept = nil
	runtime.GC()
	if r.look(lookInterval); r.given != 0 {
		t.Fatal("given back while there was a burst")
	}
	before := held()
	if r.look(lookInterval); r.given != 0 {
		t.Fatal("given back at the first calm look")
	}
	if r.look(lookInterval); r.given != 1 {
		t.Fatal("nothing was given back at rest")
	}
	if after := held(); after+150<<20 > before {
		t.Errorf("the heap had %d MiB of the system's memory and has %d", before>>20, after>>20)
	}
	for range 3 {
		if next := r.look(lookInterval); next != restInterval {
			t.Errorf("the next look at a process at rest comes after %s", next)
		}
	}
	if r.given != 1 {
		t.Errorf("given back %d times", r.given)
	}
	kept = [][]byte{make([]byte, 2<<20)}
	if next := r.look(lookInterval); next != lookInterval {
		t.Errorf("the next look at one that works comes after %s", next)
	}
}

// held is what the heap has of the system's memory.
func held() (bytes uint64) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(samples)
	for _, s := range samples {
		bytes += s.Value.Uint64()
	}
	return bytes
}
