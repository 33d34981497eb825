package memory

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A process is at rest that has made less than quiet between two looks, look apart. When it has come to rest with more than
// spare to give back (what a burst of records has left, mostly), it does so at once: the runtime collects a process at rest
// every two minutes, and gives back in minutes more.
const (
	look  = time.Second
	quiet = 1 << 20
	spare = 48 << 20
)

// rest gives memory back whenever the process comes to rest.
type rest struct {
	made  uint64 // bytes, ever
	calm  bool   // at the last look
	given int    // how often it has given back
}

func (r *rest) run() {
	for range time.Tick(look) {
		r.look()
	}
}

// look gives back at the second of two calm looks in a row.
func (r *rest) look() {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	made, live, objects, free := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()
	was := r.calm
	r.calm, r.made = made-r.made < quiet, made
	if was && r.calm && objects-min(live, objects)+free > spare {
		debug.FreeOSMemory()
		r.given++
	}
}
