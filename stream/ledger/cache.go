package ledger

import "github.com/forebay-io/forebay/stream/gate"

// lineCache holds the newest lines of a claim's entities, with what waits on them, in bounded memory. It is right as
// long as the fence is held: nobody else writes them. Two generations make it forget roughly what was used least
// recently, at the price of a map and no list.
type lineCache struct {
	half      int
	hot, cold map[gate.LineKey]*cachedLine
}

// cachedLine is one line; line is nil where it has not begun.
type cachedLine struct {
	line    *gate.Line
	waiting []gate.Waiting
}

const defaultCacheLines = 32768

func newLineCache(lines int) *lineCache {
	if lines == 0 {
		lines = defaultCacheLines
	}
	return &lineCache{half: max(lines/2, 1), hot: map[gate.LineKey]*cachedLine{}, cold: map[gate.LineKey]*cachedLine{}}
}

func (c *lineCache) find(k gate.LineKey) (*cachedLine, bool) {
	if l, ok := c.hot[k]; ok {
		return l, true
	}
	l, ok := c.cold[k]
	if ok {
		c.put(k, l)
	}
	return l, ok
}

func (c *lineCache) put(k gate.LineKey, l *cachedLine) {
	if _, ok := c.hot[k]; !ok && len(c.hot) >= c.half {
		c.cold, c.hot = c.hot, make(map[gate.LineKey]*cachedLine, c.half)
	}
	c.hot[k] = l
}

func (c *lineCache) drop(k gate.LineKey) {
	delete(c.hot, k)
	delete(c.cold, k)
}
