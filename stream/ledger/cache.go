package ledger

import "github.com/forebay-io/forebay/stream/gate"

// lineCache holds version lines of a claim, with what waits on them, in bounded memory: of what waits, a few hundred bytes an event. It is correct while the claim holds
// the fence, because only the owner writes version lines. Eviction is SIEVE (Zhang and others, NSDI 2024): a hand walks from the
// oldest line to the newest and evicts the first that was not used since the hand last passed.
type lineCache struct {
	max            int
	lines          map[gate.VersionLineKey]*cachedLine
	newest, oldest *cachedLine
	hand           *cachedLine // nil: at the oldest
	turn           uint32      // counts batches; see cachedLine.turn
	waiting        int         // events on all lines; see shed
	parked         int         // those that are parked on lines that may be read in part
}

// cachedLine is one version line; line is nil if it has not begun.
type cachedLine struct {
	line    *gate.VersionLine
	waiting []gate.Waiting
	parked  int // how many of these are, if the line may be read in part: none, or all

	key          gate.VersionLineKey
	used         bool
	gone         bool // not in the cache any more
	older, newer *cachedLine

	dirtyLine

	index int32  // among the version lines of the batch that used it last
	turn  uint32 // lineCache.turn of that batch
}

const (
	defaultCacheLines = 32768
	// waitingPerLine is how many events may wait on all cached lines together, for each line that there may be: more than the policy's caps let wait.
	waitingPerLine = 4
	// linesPerParked is the same for what is parked, turned round: no cap bounds that, and each claim of a process keeps as much. To read it again
	// costs little, as no line of it that is long is read whole.
	linesPerParked = 2
)

func newLineCache(lines int) *lineCache {
	if lines == 0 {
		lines = defaultCacheLines
	}
	return &lineCache{max: lines, lines: map[gate.VersionLineKey]*cachedLine{}}
}

// find returns a cached line and marks it as used; nil if it is not cached.
func (c *lineCache) find(k gate.VersionLineKey) *cachedLine {
	l := c.lines[k]
	if l != nil {
		l.used = true
	}
	return l
}

// put caches a line and what waits on it. If the cache is full, it evicts another line, if one may be.
func (c *lineCache) put(k gate.VersionLineKey, line *gate.VersionLine, waiting []gate.Waiting) *cachedLine {
	if l := c.lines[k]; l != nil {
		c.update(l, line, waiting)
		return l
	}
	if len(c.lines) >= c.max {
		c.evict()
	}
	l := &cachedLine{key: k, older: c.newest}
	c.update(l, line, waiting)
	if c.newest != nil {
		c.newest.newer = l
	} else {
		c.oldest = l
	}
	c.newest = l
	c.lines[k] = l
	return l
}

// update changes a line of the cache, and what waits on it.
func (c *lineCache) update(l *cachedLine, line *gate.VersionLine, waiting []gate.Waiting) {
	parked := 0
	if len(waiting) > 0 && mayBeReadInPart(waiting) {
		parked = len(waiting)
	}
	c.waiting += len(waiting) - len(l.waiting)
	c.parked += parked - l.parked
	l.line, l.waiting, l.parked = line, waiting, parked
}

// shed drops lines on which events wait until no more wait, and no more are parked, than may: those first that were not used lately. Dirty lines stay.
func (c *lineCache) shed() {
	for _, used := range []bool{false, true} {
		for l := c.oldest; l != nil; {
			tooMany := c.waiting > waitingPerLine*c.max
			tooManyParked := linesPerParked*c.parked > c.max
			if !tooMany && !tooManyParked {
				return
			}
			newer := l.newer
			if (tooMany && len(l.waiting) > 0 || tooManyParked && l.parked > 0) && l.used == used && !l.dirty() {
				c.drop(l.key)
			}
			l = newer
		}
	}
}

// evict drops one line that is not dirty and was not used lately. If all are dirty, it drops none: their state is nowhere else.
func (c *lineCache) evict() {
	l := c.hand
	if l == nil {
		l = c.oldest
	}
	for n := 2 * len(c.lines); l.used || l.dirty(); n-- {
		if n == 0 {
			return
		}
		l.used = false
		if l = l.newer; l == nil {
			l = c.oldest
		}
	}
	c.hand = l
	c.drop(l.key)
}

// drop takes a line out of the cache.
func (c *lineCache) drop(k gate.VersionLineKey) {
	l := c.lines[k]
	if l == nil {
		return
	}
	delete(c.lines, k)
	c.waiting -= len(l.waiting)
	c.parked -= l.parked
	l.gone = true
	if c.hand == l {
		c.hand = l.newer
	}
	if l.newer != nil {
		l.newer.older = l.older
	} else {
		c.newest = l.older
	}
	if l.older != nil {
		l.older.newer = l.newer
	} else {
		c.oldest = l.newer
	}
	l.older, l.newer = nil, nil
}
