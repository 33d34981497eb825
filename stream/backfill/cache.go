package backfill

import (
	"container/list"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// cache keeps documents for a while, in a bounded number of bytes. Safe for concurrent use; documents are read-only.
type cache struct {
	keep time.Duration
	most int

	mu    sync.Mutex
	byKey map[schemas.EventKey]*list.Element
	order *list.List // of *kept, the oldest first, which is the first to expire
	bytes int
}

type kept struct {
	key schemas.EventKey
	doc *document
	at  time.Time
}

func newCache(keep time.Duration, most int) *cache {
	return &cache{keep: keep, most: most, byKey: map[schemas.EventKey]*list.Element{}, order: list.New()}
}

// get returns the document of an event, or nil.
func (c *cache) get(key schemas.EventKey) *document {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	if el := c.byKey[key]; el != nil {
		return el.Value.(*kept).doc
	}
	return nil
}

// put keeps a document, and lets go of the oldest for it. One that would take a quarter of the room is not kept.
func (c *cache) put(key schemas.EventKey, d *document) {
	k := &kept{key: key, doc: d, at: time.Now()}
	if k.size() > c.most/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.byKey[key]; el != nil {
		c.remove(el)
	}
	c.byKey[key] = c.order.PushBack(k)
	c.bytes += k.size()
	c.expire()
	for c.bytes > c.most {
		c.remove(c.order.Front())
	}
}

func (c *cache) expire() {
	for el := c.order.Front(); el != nil && time.Since(el.Value.(*kept).at) >= c.keep; el = c.order.Front() {
		c.remove(el)
	}
}

func (c *cache) remove(el *list.Element) {
	k := c.order.Remove(el).(*kept)
	delete(c.byKey, k.key)
	c.bytes -= k.size()
}

// size returns the body and a flat share for the rest, so that empty bodies count too.
func (k *kept) size() int { return len(k.doc.body) + 512 }
