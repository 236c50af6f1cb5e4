package storage

import (
	"slices"
	"strconv"
	"strings"
)

// safest lists the levels from the safest. DurableUnknown comes before DurableMemory, which loses everything.
var safest = []DurabilityLevel{
	DurableAlways, DurableEverysec, DurableSnapshot, DurableUnknown, DurableMemory,
}

// Weaker returns the weaker value of each property of two parts of one storage.
func Weaker(a, b Description) Description {
	if slices.Index(safest, b.Durability.Level) > slices.Index(safest, a.Durability.Level) {
		a.Durability.Level, a.Durability.AppendOnly, a.Durability.Fsync = b.Durability.Level, b.Durability.AppendOnly,
			b.Durability.Fsync
	}
	if p := b.Durability.EvictionPolicy; p != "noeviction" &&
		(p != unknownPolicy || a.Durability.EvictionPolicy == "noeviction") {
		a.Durability.EvictionPolicy = b.Durability.EvictionPolicy
	}
	if olderVersion(b.Version, a.Version) {
		a.Version = b.Version
	}
	a.Durability.Replicas = min(a.Durability.Replicas, b.Durability.Replicas)
	a.Durability.MostReplicas = max(a.Durability.MostReplicas, b.Durability.MostReplicas)
	if b.Durability.MaxMemoryBytes != 0 &&
		(a.Durability.MaxMemoryBytes == 0 || b.Durability.MaxMemoryBytes < a.Durability.MaxMemoryBytes) {
		a.Durability.MaxMemoryBytes = b.Durability.MaxMemoryBytes
	}
	return a
}

func olderVersion(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i])
		y, _ := strconv.Atoi(bs[i])
		if x != y {
			return x < y
		}
	}
	return len(as) < len(bs)
}
