package cache

import "github.com/tidemark-dev/tidemark/records"

// Event is an event that a cache counts.
type Event string

// The events.
const (
	HitLocal    Event = "hit-local"   // answered from memory
	HitRedis    Event = "hit-redis"   // answered from Redis, or from the store's client-side cache
	Miss        Event = "miss"        // neither had it
	Loaded      Event = "loaded"      // a loader returned a value, or that there is none
	LoadFailed  Event = "load-failed" // a loader failed, panicked, or took too long
	Refreshed   Event = "refreshed"   // a value was loaded before it ended
	Invalidated Event = "invalidated" // by this process: by ID, tag or prefix
	Superseded  Event = "superseded"  // a loaded value wasn't stored, since it was invalidated meanwhile
	// a loaded value wasn't stored for another reason, such as its size or a full Redis
	NotStored   Event = "not-stored"
	Unreachable Event = "unreachable"  // Redis didn't answer; the value was loaded without it
	Undecodable Event = "undecodable"  // a value couldn't be decoded, and was loaded again
	Written     Event = "written"      // a write-behind entry reached the source of truth
	WriteFailed Event = "write-failed" // the write failed, and is tried again
)

// Events are all events.
var Events = []Event{
	HitLocal, HitRedis, Miss, Loaded, LoadFailed, Refreshed, Invalidated, Superseded, NotStored, Unreachable,
	Undecodable, Written, WriteFailed,
}

// Metrics counts events. Count is called for each read, and must be quick.
type Metrics interface {
	Count(kind *records.Kind, e Event)
}

type noMetrics struct{}

func (noMetrics) Count(*records.Kind, Event) {}
