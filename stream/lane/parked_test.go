package lane

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

func heapSize() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An agent that refuses everything parks every entity: 200,000 parked lanes take some bytes each, and none of them runs
// what comes behind its head.
func TestMemoryOfParkedLanes(t *testing.T) {
	const n = 200_000
	in(t, nil, func(t *testing.T, r *rig) {
		entity := func(i int) schemas.EntityKey { return schemas.EntityKey(fmt.Sprintf("186853002/%d", i)) }
		before := heapSize()
		r.s.mu.Lock()
		p := r.s.q.partitions[r.claim]
		for i := range n {
			r.s.q.push(p, &ledger.Action{LaneSeq: int64(i + 1), Entity: entity(i), Status: ledger.Dead, Destination: destName}, nil, false)
		}
		p.loadedTo = n
		same(t, "parked, and nothing else is kept", []int{len(p.parked), len(p.lanes), p.open, len(p.needsRefill)}, []int{n, 0, 0, 0})
		r.s.mu.Unlock()
		each := (heapSize() - before) / n
		t.Logf("%d bytes a lane", each)
		if each > 80 {
			t.Errorf("%d bytes a lane", each)
		}
		r.seq = n
		r.add(string(entity(7)), string(entity(n-1)), "free")
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "calls", r.sink.ids(), []string{fmt.Sprint("free#", n+3)})
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		behind, nothing := p.parked[laneKeyOf(entity(7))], p.parked[laneKeyOf(entity(8))]
		same(t, "behind", []int64{behind.head, behind.last, nothing.head, nothing.last}, []int64{8, n + 1, 9, 9})
	})
}
