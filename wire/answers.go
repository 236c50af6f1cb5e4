package wire

import "github.com/tidemark-dev/tidemark/clock"

// Subscription answers a subscribe.
type Subscription struct {
	Channel    string      `json:"channel"`
	Subscriber string      `json:"subscriber"`
	Created    bool        `json:"created"` // false: it was there already, and its mark was not moved
	Epoch      string      `json:"epoch"`   // of the channel
	Mark       clock.Clock `json:"mark"`    // the next fetch starts after it
}

// Description answers a question about a channel.
type Description struct {
	Channel         string          `json:"channel"`
	Epoch           string          `json:"epoch"`
	Clock           clock.Clock     `json:"clock"`            // the last clock given out
	Oldest          *clock.Clock    `json:"oldest,omitempty"` // the oldest message alive; left out where none is
	Live            uint64          `json:"live"`             // how many clocks there are from oldest to clock, both included
	TTLMillis       int64           `json:"ttlMs"`            // what is left of the channel's life without activity
	SubscriberCount uint64          `json:"subscriberCount"`  // subscribers, with those whose life has ended of late
	Subscribers     []SubscriberLag `json:"subscribers"`      // one page, by name
	Cursor          string          `json:"cursor,omitempty"` // of the next page; left out on the last
}

// SubscriberLag is a subscriber's mark and how far it is behind.
type SubscriberLag struct {
	Name string      `json:"name"`
	Mark clock.Clock `json:"mark"`
	Lag  uint64      `json:"lag"` // messages published after the mark, alive or expired
}

// Info tells of a server and its storage.
type Info struct {
	Version string  `json:"version"`
	Storage Storage `json:"storage"`
	Limits  Limits  `json:"limits"`
	Queues  int     `json:"queues,omitempty"` // how many there are; left out where there is no matchmaking
}

// Storage tells what the channels are kept in, as found at start-up.
type Storage struct {
	Kind       string     `json:"kind"`    // "managed", "standalone", "sentinel" or "cluster"
	Product    string     `json:"product"` // "redis" or "valkey"
	Version    string     `json:"version"` // of the product
	Durability Durability `json:"durability"`
}

// Durability tells how safely the storage keeps what it has answered for.
type Durability struct {
	Level          string   `json:"level"` // "always", "everysec", "snapshot", "memory" or "unknown"
	AppendOnly     bool     `json:"appendOnly"`
	Fsync          string   `json:"fsync"`
	Replicas       int      `json:"replicas"`
	EvictionPolicy string   `json:"evictionPolicy"`
	MaxMemoryBytes int64    `json:"maxMemoryBytes"` // 0: no limit
	Warnings       []string `json:"warnings"`       // what an operator should change
}

// Limits bounds what one request can ask for.
type Limits struct {
	MaxNameBytes  int   `json:"maxNameBytes"`  // of channel names, subscriber names and message IDs
	MaxBodyBytes  int64 `json:"maxBodyBytes"`  // of a request
	MaxBatch      int   `json:"maxBatch"`      // messages in one publish
	DefaultMax    int   `json:"defaultMax"`    // messages that a fetch answers with where it names no max
	MaxMax        int   `json:"maxMax"`        // the largest max of a fetch
	MaxFetchBytes int   `json:"maxFetchBytes"` // bytes of contents that a fetch answers with, but always one message
	MaxWaitMillis int64 `json:"maxWaitMs"`     // the longest wait of a fetch
}

// Status answers the probes.
type Status struct {
	Status string `json:"status"` // "ok"
}
