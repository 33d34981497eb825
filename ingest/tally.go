package ingest

import (
	"sync"
	"time"
)

// tally counts what happens too often for a line each, and tells the counts a while after the first. Safe for concurrent use.
type tally[Kind comparable] struct {
	every time.Duration
	tell  func(kind Kind, count int)

	mu     sync.Mutex
	counts map[Kind]int // nil: there is nothing to tell
}

func (t *tally[Kind]) add(kind Kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[Kind]int{}
		time.AfterFunc(t.every, t.flush)
	}
	t.counts[kind]++
}

func (t *tally[Kind]) flush() {
	t.mu.Lock()
	counts := t.counts
	t.counts = nil
	t.mu.Unlock()
	for kind, count := range counts {
		t.tell(kind, count)
	}
}
