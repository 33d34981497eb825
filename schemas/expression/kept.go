package expression

import (
	"sync"
	"sync/atomic"
)

// forgets counts the calls of Forget.
var forgets atomic.Uint64

// Forget drops what was compiled before the last call of it, and not asked for since then. Whoever reads expressions again and again calls it before
// each time: what comes again is not compiled again, and what was taken out is gone the time after the next.
func Forget() { forgets.Add(1) }

// kept has what was compiled of texts, and what is wrong with those that are no expressions: of one environment both depend on the text alone.
type kept struct {
	mu          sync.Mutex
	at          uint64 // of forgets, when now was begun
	now, before map[string]result
}

type result struct {
	x   *Expression // nobody writes to it
	err error
}

// compiled returns what compile has made of a text, or makes of it.
func (k *kept) compiled(text string, compile func(string) (*Expression, error)) (*Expression, error) {
	r, ok := k.find(text)
	if !ok {
		r.x, r.err = compile(text) // without the lock: others need not wait for it
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now[text] = r
	return r.x, r.err
}

// find returns what is kept of a text.
func (k *kept) find(text string) (r result, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := forgets.Load(); k.now == nil || at != k.at {
		if k.before = nil; at == k.at+1 {
			k.before = k.now
		}
		k.at, k.now = at, map[string]result{}
	}
	if r, ok = k.now[text]; !ok {
		r, ok = k.before[text]
	}
	return r, ok
}
