// Package storage describes the storage of the stores below it, and its durability.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package storage

// Description describes the storage of a store, as found at start-up.
type Description struct {
	Kind       string     // "managed", "standalone", "sentinel" or "cluster"
	Product    string     // "redis" or "valkey"
	Version    string     // of the product; in a cluster the oldest found
	Durability Durability // in a cluster the weakest found on any primary
}

// Durability describes which failures an answered publish survives.
type Durability struct {
	Level          DurabilityLevel
	AppendOnly     bool   // the append-only file is on
	Fsync          string // "always", "everysec", "no", or "unknown" if the storage doesn't report it
	Replicas       int    // connected replicas; in a cluster the fewest of any primary
	MostReplicas   int    // in a cluster the most of any primary
	EvictionPolicy string // maxmemory-policy; any but noeviction can delete messages and clocks
	MaxMemoryBytes int64  // 0: no limit
}

// Evicts reports whether the storage deletes keys when it runs out of memory, and whether that is known.
func (d Durability) Evicts() (evicts, known bool) {
	switch d.EvictionPolicy {
	case "noeviction":
		return false, true
	case unknownPolicy:
		return false, false
	}
	return d.MaxMemoryBytes > 0, true
}

const unknownPolicy = "unknown"

// DurabilityLevel summarizes a Durability.
type DurabilityLevel string

// The durability levels, from the safest.
const (
	DurableAlways DurabilityLevel = "always" // on disk before it is answered: survives a crash of the machine
	// a crash of the machine loses up to about a second, a crash of the process nothing
	DurableEverysec DurabilityLevel = "everysec"
	DurableSnapshot DurabilityLevel = "snapshot" // a crash loses everything after the last RDB snapshot
	DurableMemory   DurabilityLevel = "memory"   // a restart of the storage loses everything
	DurableUnknown  DurabilityLevel = "unknown"  // the storage doesn't report it
)
