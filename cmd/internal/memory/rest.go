package memory

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A process is at rest if it allocates less than quiet bytes in a lookInterval. If it then has more than spare bytes that it does not
// use, such as what a burst of records has left, these go back to the system at once. The runtime alone would collect a process at
// rest every two minutes, and take more minutes to give its memory back.
const (
	lookInterval = time.Second
	quiet        = 1 << 20
	spare        = 48 << 20
)

// rest gives memory back to the system when the process comes to rest.
type rest struct {
	allocated uint64 // bytes since the start, at the last look
	calm      bool   // at the last look
	given     int    // how often it has given memory back
}

// run looks once an interval, as long as the process runs.
func (r *rest) run() {
	for range time.Tick(lookInterval) {
		r.look()
	}
}

// look gives memory back if the process was at rest in the last two intervals.
func (r *rest) look() {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	allocated, live, objects, free := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()
	wasCalm := r.calm
	r.calm, r.allocated = allocated-r.allocated < quiet, allocated
	garbage := objects - min(live, objects)
	if wasCalm && r.calm && garbage+free > spare {
		debug.FreeOSMemory()
		r.given++
	}
}
