package backfill

import (
	"container/list"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// cache keeps documents for a while, in a bounded number of bytes. Safe for concurrent use; documents are read-only.
type cache struct {
	ttl      time.Duration
	maxBytes int

	mu    sync.Mutex
	byKey map[schemas.EventKey]*list.Element
	order *list.List // of *cached, the oldest first
	bytes int
}

type cached struct {
	key schemas.EventKey
	doc *document
	at  time.Time
}

func newCache(ttl time.Duration, maxBytes int) *cache {
	return &cache{ttl: ttl, maxBytes: maxBytes, byKey: map[schemas.EventKey]*list.Element{}, order: list.New()}
}

// get returns the document of an event, or nil.
func (c *cache) get(key schemas.EventKey) *document {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	if el := c.byKey[key]; el != nil {
		return el.Value.(*cached).doc
	}
	return nil
}

// put keeps a document, and drops the oldest ones where it needs their room. A document of more than a quarter of maxBytes is not kept.
func (c *cache) put(key schemas.EventKey, d *document) {
	entry := &cached{key: key, doc: d, at: time.Now()}
	if entry.size() > c.maxBytes/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.byKey[key]; el != nil {
		c.remove(el)
	}
	c.byKey[key] = c.order.PushBack(entry)
	c.bytes += entry.size()
	c.expire()
	for c.bytes > c.maxBytes {
		c.remove(c.order.Front())
	}
}

// expire removes what is older than the ttl.
func (c *cache) expire() {
	for el := c.order.Front(); el != nil && time.Since(el.Value.(*cached).at) >= c.ttl; el = c.order.Front() {
		c.remove(el)
	}
}

func (c *cache) remove(el *list.Element) {
	entry := c.order.Remove(el).(*cached)
	delete(c.byKey, entry.key)
	c.bytes -= entry.size()
}

// size returns the bytes of the body and 512 for the rest of the entry: empty bodies take room too.
func (e *cached) size() int { return len(e.doc.body) + 512 }
