package memory

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A process is at rest if it allocates less than quiet bytes a second. If it then has more than spare bytes that it does not use, such as
// what a burst of records has left, these go back to the system at once. The runtime alone would collect a process at rest every two
// minutes, and take more minutes to give its memory back.
const (
	lookInterval = time.Second
	restInterval = 5 * time.Second // between looks at a process that rests and has given back what it has
	quiet        = 1 << 20
	spare        = 8 << 20
)

// rest gives memory back to the system when the process comes to rest.
type rest struct {
	allocated uint64 // bytes since the start, at the last look
	calm      bool   // at the last look
	given     int    // how often it has given memory back
}

// run looks as long as the process runs.
func (r *rest) run() {
	since := lookInterval
	for next := time.NewTimer(since); ; next.Reset(since) {
		<-next.C
		since = r.look(since)
	}
}

// look gives memory back if the process was at rest at the look before, and since then. It returns when to look next.
func (r *rest) look(since time.Duration) (next time.Duration) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	allocated, live, objects, free := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()
	wasCalm := r.calm
	r.calm, r.allocated = float64(allocated-r.allocated) < quiet*since.Seconds(), allocated
	garbage := objects - min(live, objects)
	switch {
	case !wasCalm || !r.calm:
		return lookInterval
	case garbage+free > spare:
		debug.FreeOSMemory()
		r.given++
	}
	return restInterval
}
