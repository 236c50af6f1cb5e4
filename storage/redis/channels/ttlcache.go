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
	read time.Time // when it was read or written; zero: the TTL isn't known
	ends time.Time
	idle bool // the last fetch found nothing
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

// isIdle reports whether the last fetch of a mark's subscriber found nothing.
func (c *ttlCache) isIdle(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.marks.Get(key)
	return ok && m.idle
}

// setIdle records that the last fetch of a mark's subscriber found nothing.
func (c *ttlCache) setIdle(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.marks.Get(key)
	if ok && m.idle {
		return
	}
	m.idle = true
	c.marks.Add(strings.Clone(key), m)
}

// set records the TTL that a mark had at a time, at least.
func (c *ttlCache) set(key string, at time.Time, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, _ := c.marks.Peek(key)
	m.read, m.ends = at, at.Add(ttl)
	c.marks.Add(strings.Clone(key), m)
}

// remove removes a mark, whose subscriber was removed, doesn't exist, or has something to fetch.
func (c *ttlCache) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks.Remove(key)
}
