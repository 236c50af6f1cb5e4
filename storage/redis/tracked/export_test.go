package tracked

import (
	"context"

	"github.com/redis/rueidis"
)

// Kept reads a string, and reports whether it was answered from memory.
func (c *Client) Kept(ctx context.Context, key string) bool {
	return c.results(ctx, []rueidis.CacheableTTL{rueidis.CT(c.get(key), c.maxAge)})[0].IsCacheHit()
}
