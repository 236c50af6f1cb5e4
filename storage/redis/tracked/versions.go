package tracked

import (
	"hash/maphash"
	"sync/atomic"
)

// versions counts the changes of keys, in bounded memory: several keys share a counter. A change of one makes entries
// of the others unfresh that are being read at that moment, and these are read again.
type versions struct {
	seed   maphash.Seed
	losses atomic.Uint64
	counts [4096]atomic.Uint64
}

// version is the state of a key's counters.
type version struct{ losses, count uint64 }

func (v *versions) init() { v.seed = maphash.MakeSeed() }

func (v *versions) counter(key string) *atomic.Uint64 {
	return &v.counts[maphash.String(v.seed, key)%uint64(len(v.counts))]
}

func (v *versions) of(key string) version {
	return version{losses: v.losses.Load(), count: v.counter(key).Load()}
}

func (v *versions) bump(key string) { v.counter(key).Add(1) }

func (v *versions) bumpAll() { v.losses.Add(1) }
