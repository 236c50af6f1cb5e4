package cache

import "github.com/tidemark-dev/tidemark/internal/records"

// Event is the outcome of a read, which is counted.
type Event string

// The events.
const (
	HitRedis    Event = "hit-redis"   // answered by Redis, or from memory by its client-side caching
	HitShards   Event = "hit-shards"  // answered without Redis by the sharded read tier
	Miss        Event = "miss"        // the store doesn't have the value
	Undecodable Event = "undecodable" // the store's value has another form
)

// Metrics counts events. Count is called for each read, and must be quick.
type Metrics interface {
	Count(kind *records.Kind, e Event)
}
