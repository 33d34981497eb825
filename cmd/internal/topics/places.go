package topics

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// places finds the offsets in the copy at which the readers of the copied topic go on.
type places struct {
	next map[string]map[int32]int64 // where they stand in the old topic

	mu     sync.Mutex
	begins map[string]map[int32]int64
}

func newPlaces(readers map[string]map[int32]int64) *places {
	p := &places{next: readers, begins: map[string]map[int32]int64{}}
	for name := range readers {
		p.begins[name] = map[int32]int64{}
	}
	return p
}

// put notes that the record at an offset was copied, and to where.
func (p *places) put(number int32, offset int64, copied *kgo.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, next := range p.next {
		if offset < next[number] {
			continue
		}
		if first, ok := p.begins[name][copied.Partition]; !ok || copied.Offset < first {
			p.begins[name][copied.Partition] = copied.Offset
		}
	}
}

// rest sets the readers that have nothing left to read to the end of the copy.
func (p *places) rest(all map[int32]span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, begins := range p.begins {
		for number, s := range all {
			if _, ok := begins[number]; !ok {
				begins[number] = s.end
			}
		}
	}
}
