package wire

import "github.com/tidemark-dev/tidemark/clock"

// Subscription is the answer to a subscribe.
type Subscription struct {
	Channel    string      `json:"channel"`
	Subscriber string      `json:"subscriber"`
	Created    bool        `json:"created"` // false: it existed, and its mark was not moved
	Epoch      string      `json:"epoch"`   // of the channel
	Mark       clock.Clock `json:"mark"`    // the next fetch starts after it
}

// Description describes a channel.
type Description struct {
	Channel         string          `json:"channel"`
	Epoch           string          `json:"epoch"`
	Clock           clock.Clock     `json:"clock"`            // of the last message
	Oldest          *clock.Clock    `json:"oldest,omitempty"` // of the oldest message alive; left out if there is none
	Live            uint64          `json:"live"`             // number of clocks from oldest to clock, both included
	TTLMillis       int64           `json:"ttlMs"`            // remaining life of the channel without activity
	SubscriberCount uint64          `json:"subscriberCount"`  // with those that expired recently
	Subscribers     []SubscriberLag `json:"subscribers"`      // one page, by name
	Cursor          string          `json:"cursor,omitempty"` // of the next page; left out on the last
}

// SubscriberLag is a subscriber's mark and how far it is behind.
type SubscriberLag struct {
	Name string      `json:"name"`
	Mark clock.Clock `json:"mark"`
	Lag  uint64      `json:"lag"` // messages published after the mark, alive or expired
}

// Info describes a server and its storage.
type Info struct {
	Version string  `json:"version"`
	Access  string  `json:"access"` // "open", or "credentials" if requests need them
	Storage Storage `json:"storage"`
	Limits  Limits  `json:"limits"`
	Queues  int     `json:"queues,omitempty"` // number of queues; left out without matchmaking
	// Differences is left out if all servers on the same Redis are configured alike.
	Differences Differences `json:"differences,omitzero"`
}

// Differences counts the parts of the configuration that another server on the same Redis defines differently. The log
// names them.
type Differences struct {
	Queues   int `json:"queues"`
	Channels int `json:"channels"` // rules
	Kinds    int `json:"kinds"`    // of records
}

// Storage describes the storage of the channels, as found at start-up.
type Storage struct {
	Kind       string     `json:"kind"`    // "managed", "standalone", "sentinel" or "cluster"
	Product    string     `json:"product"` // "redis" or "valkey"
	Version    string     `json:"version"` // of the product
	Durability Durability `json:"durability"`
}

// Durability describes how durable the storage is.
type Durability struct {
	Level          string   `json:"level"` // "always", "everysec", "snapshot", "memory" or "unknown"
	AppendOnly     bool     `json:"appendOnly"`
	Fsync          string   `json:"fsync"`
	Replicas       int      `json:"replicas"`
	EvictionPolicy string   `json:"evictionPolicy"`
	MaxMemoryBytes int64    `json:"maxMemoryBytes"` // 0: no limit
	Warnings       []string `json:"warnings"`       // what an operator should change
}

// Limits are the limits of one request.
type Limits struct {
	MaxNameBytes  int   `json:"maxNameBytes"`  // of channel names, subscriber names and message IDs
	MaxBodyBytes  int64 `json:"maxBodyBytes"`  // of a request
	MaxBatch      int   `json:"maxBatch"`      // messages in one publish
	DefaultMax    int   `json:"defaultMax"`    // messages in a fetch without a max
	MaxMax        int   `json:"maxMax"`        // the largest max of a fetch
	MaxFetchBytes int   `json:"maxFetchBytes"` // bytes of contents in the answer to a fetch; one message is always returned
	MaxWaitMillis int64 `json:"maxWaitMs"`     // the longest wait of a fetch
}

// Status is the answer to probes.
type Status struct {
	Status string `json:"status"` // "ok"
}
