package limits

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// Kind is a kind of counted events.
type Kind int

// What is counted when it has been made.
const (
	NewChannels Kind = iota
	NewSubscribers
	requests
	bytes
	tickets
	kinds
)

// String returns the name of the limit.
func (k Kind) String() string {
	return [kinds]string{
		access.LimitNewChannels, access.LimitNewSubscribers, access.LimitRequests, access.LimitPublishedBytes,
		access.LimitTickets,
	}[k]
}

// rate returns the limit of a kind.
func (k Kind) rate(l *access.Limits) access.Rate {
	return *[kinds]*access.Rate{&l.NewChannels, &l.NewSubscribers, &l.Requests, &l.PublishedBytes, &l.Tickets}[k]
}

// counts are the recent events of one principal or one address. nil: it has no limits.
type counts struct {
	who    who
	limits access.Limits

	mu      sync.Mutex
	buckets [kinds]*rate.Limiter // made when first needed
}

// bucket returns the bucket of a Kind, or nil if that isn't limited.
func (c *counts) bucket(k Kind) *rate.Limiter {
	if c == nil {
		return nil
	}
	r := k.rate(&c.limits)
	if r.Count == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buckets[k] == nil {
		c.buckets[k] = rate.NewLimiter(rate.Limit(r.PerSecond()), r.Count)
	}
	return c.buckets[k]
}

// reserve counts n events and returns zero. If there are too many it counts none, and returns when a retry succeeds, which
// counts some events before these. More events than the limit's count are counted as that many.
func (c *counts) reserve(k Kind, n, before int) (wait time.Duration) {
	b := c.bucket(k)
	if b == nil {
		return 0
	}
	n = min(n, b.Burst())
	if b.AllowN(time.Now(), n) {
		return 0
	}
	return until(b, n+before)
}

// charge counts an event that has happened, even beyond the limit.
func (c *counts) charge(k Kind) {
	if b := c.bucket(k); b != nil {
		b.Reserve()
	}
}

// spend counts n events that have happened, even beyond the limit, but never more than the limit's count beyond it.
func (c *counts) spend(k Kind, n int) {
	b := c.bucket(k)
	if b == nil {
		return
	}
	if n = min(n, b.Burst(), b.Burst()+int(b.Tokens())); n > 0 {
		b.ReserveN(time.Now(), n)
	}
}

// room reports whether there may be one more event.
func (c *counts) room(k Kind) bool {
	b := c.bucket(k)
	return b == nil || b.Tokens() >= 1
}

// until returns when a bucket will have n tokens. It is positive.
func until(b *rate.Limiter, n int) time.Duration {
	missing := float64(n) - b.Tokens()
	return max(1, time.Duration(math.Ceil(missing/float64(b.Limit())*float64(time.Second))))
}
