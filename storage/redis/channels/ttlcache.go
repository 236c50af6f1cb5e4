package channels

import (
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// ttlCacheSize is the largest number of marks in a ttlCache, which takes about 15 MB then.
const ttlCacheSize = 1 << 16

// ttlCache holds the TTLs of the marks that were polled last, so that a poll needn't read them each time, and the marks
// whose last fetch found nothing. Many goroutines may use it.
type ttlCache struct {
	mu    sync.Mutex
	marks *simplelru.LRU[string, markTTL]
}

type markTTL struct {
	read time.Time // when it was read or written
	ends time.Time
}

func newTTLCache() *ttlCache {
	marks, err := simplelru.NewLRU[string, markTTL](ttlCacheSize, nil)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return &ttlCache{marks: marks}
}

// covers reports whether a mark is known to live until now and least, from a TTL that was read less than maxAge ago.
func (c *ttlCache) covers(key string, now time.Time, least, maxAge time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.marks.Get(key)
	return ok && now.Sub(m.read) < maxAge && !m.ends.Before(now.Add(least))
}

// has reports whether a mark is held.
func (c *ttlCache) has(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks.Contains(key)
}

// add holds a mark of which no TTL is known, unless it is held already.
func (c *ttlCache) add(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.marks.Contains(key) {
		c.marks.Add(strings.Clone(key), markTTL{})
	}
}

// set records the TTL that a mark had at a time, at least.
func (c *ttlCache) set(key string, at time.Time, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks.Add(strings.Clone(key), markTTL{read: at, ends: at.Add(ttl)})
}

// remove removes a mark, whose subscriber was removed or doesn't exist.
func (c *ttlCache) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks.Remove(key)
}
