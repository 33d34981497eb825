package topics

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// places finds the offsets at which the readers of a topic go on in its copy. The maps are by the reader's name and then by partition.
type places struct {
	next map[string]map[int32]int64 // the readers' next offsets in the topic

	mu     sync.Mutex
	begins map[string]map[int32]int64 // the readers' first offsets in the copy; whole after rest
}

// newPlaces makes the places of readers with these next offsets in the topic.
func newPlaces(readers map[string]map[int32]int64) *places {
	p := &places{next: readers, begins: map[string]map[int32]int64{}}
	for name := range readers {
		p.begins[name] = map[int32]int64{}
	}
	return p
}

// put takes the copy of the record at an offset of the topic. A reader that has not read the record goes on at the copy, or before.
func (p *places) put(partition int32, offset int64, copied *kgo.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, next := range p.next {
		if offset < next[partition] {
			continue
		}
		if first, ok := p.begins[name][copied.Partition]; !ok || copied.Offset < first {
			p.begins[name][copied.Partition] = copied.Offset
		}
	}
}

// rest sets readers to the end of those partitions of the copy in which nothing is left for them to read. It is called after all puts.
func (p *places) rest(ofCopy map[int32]span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, begins := range p.begins {
		for partition, s := range ofCopy {
			if _, ok := begins[partition]; !ok {
				begins[partition] = s.end
			}
		}
	}
}
