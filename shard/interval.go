package shard

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxShards is how many shards a data centre can have.
const MaxShards = 1024

// Interval is a range of sharding keys, from First to Last, both included. So it can end at the largest uint64.
type Interval struct{ First, Last uint64 }

// All has every sharding key.
var All = Interval{Last: math.MaxUint64}

// Contains reports whether a sharding key is in the interval.
func (i Interval) Contains(key uint64) bool { return i.First <= key && key <= i.Last }

// String returns both ends in hexadecimal.
func (i Interval) String() string { return fmt.Sprintf("%016x-%016x", i.First, i.Last) }

// Layout is how the sharding keys of a cache are split in one data centre. It must not be changed.
type Layout struct {
	Generation uint64   // counts the changes of the data centre's layout; 0: it has none
	Starts     []uint64 // first sharding key of each shard, in ascending order; the first is 0
}

// ErrLayout is wrapped by the errors of layouts that leave sharding keys out, or have them twice.
var ErrLayout = errors.New("invalid layout")

// Even returns the starts of n shards of the same size. n must be from 1 to MaxShards.
func Even(n int) []uint64 {
	starts := make([]uint64, n)
	size := math.MaxUint64/uint64(n) + 1 // rounded up: only the last shard can be smaller; for n = 1 it is 0
	for i := range starts {
		starts[i] = uint64(i) * size
	}
	return starts
}

// CheckStarts returns an error that wraps ErrLayout unless starts can be those of a layout.
func CheckStarts(starts []uint64) error {
	switch {
	case len(starts) == 0:
		return fmt.Errorf("%w: it has no shards", ErrLayout)
	case len(starts) > MaxShards:
		return fmt.Errorf("%w: it has %d shards, at most %d are allowed", ErrLayout, len(starts), MaxShards)
	case starts[0] != 0:
		return fmt.Errorf("%w: a gap: the first shard starts at %d, and not at 0", ErrLayout, starts[0])
	}
	for i := 1; i < len(starts); i++ {
		if starts[i] <= starts[i-1] {
			return fmt.Errorf("%w: an overlap: shard %d starts at %d, shard %d at %d", ErrLayout, i-1, starts[i-1], i,
				starts[i])
		}
	}
	return nil
}

// Interval returns the interval of a shard, from 0 to len(l.Starts)-1.
func (l Layout) Interval(shard int) Interval {
	in := Interval{First: l.Starts[shard], Last: math.MaxUint64}
	if shard+1 < len(l.Starts) {
		in.Last = l.Starts[shard+1] - 1
	}
	return in
}

// Find returns the shard that a sharding key is in. The layout must have shards.
func (l Layout) Find(key uint64) int {
	at, found := slices.BinarySearch(l.Starts, key)
	if !found {
		at--
	}
	return at
}
