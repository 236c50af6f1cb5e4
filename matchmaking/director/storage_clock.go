package director

import (
	"sync/atomic"
	"time"
)

// storageClock tells the storage's time from this server's clock and what the storage said last. It may be used by
// many goroutines.
type storageClock struct {
	ahead atomic.Int64 // ns that the storage's clock is ahead of this server's
}

// observe takes the storage's time from an answer to a request that was sent at a time.
func (c *storageClock) observe(sent, storage time.Time) {
	middle := sent.Add(time.Since(sent) / 2)
	c.ahead.Store(int64(storage.Sub(middle)))
}

// now gives the storage's time.
func (c *storageClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// local gives when this server's clock shows a time of the storage's.
func (c *storageClock) local(storage time.Time) time.Time {
	return time.Now().Add(storage.Sub(c.now()))
}
