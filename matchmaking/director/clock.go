package director

import (
	"sync/atomic"
	"time"
)

// clock converts between this server's clock and the storage's, by their difference in the last reply of the storage.
// Its zero value assumes that they are equal. It may be used by many goroutines.
type clock struct {
	ahead atomic.Int64 // ns that the storage's clock is ahead of this server's
}

// Observe records the storage's time in an answer to a request that was sent at a time.
func (c *clock) Observe(sent, storage time.Time) {
	middle := sent.Add(time.Since(sent) / 2)
	c.ahead.Store(int64(storage.Sub(middle)))
}

// Now returns the storage's time.
func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Local returns when this server's clock shows a time of the storage's.
func (c *clock) Local(storage time.Time) time.Time {
	return time.Now().Add(storage.Sub(c.Now()))
}
