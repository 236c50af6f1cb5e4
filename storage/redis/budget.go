// Package budget limits how many bytes of large reads are in transit at the same time. Start from [New].

package redis

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// memoryMetrics counts what happens to reads.
type memoryMetrics interface {
	// ReadWaits counts a read as waiting until over is called.
	ReadWaits() (over func())
	// ReadBytes changes the number of bytes in transit.
	ReadBytes(change int64)
}

// memoryBudget limits how many bytes of large reads are in transit from Redis at the same time. Reads queue for their
// share in order of arrival. No owner, such as a channel, has more than two reads in that queue: its others wait for
// these, so that a channel with many subscribers doesn't delay other channels.
type memoryBudget struct {
	size    int64
	total   *semaphore.Weighted
	metrics memoryMetrics

	mu     sync.Mutex
	owners map[string]*ownerBudget
}

type ownerBudget struct {
	turns *semaphore.Weighted
	users int // guarded by the budget's lock
}

// turnsPerOwner lets one read of an owner transfer while another one is decoded.
const turnsPerOwner = 2

// newMemoryBudget returns a budget of so many bytes.
func newMemoryBudget(size int, m memoryMetrics) *memoryBudget {
	return &memoryBudget{
		size: int64(size), total: semaphore.NewWeighted(int64(size)), metrics: m, owners: map[string]*ownerBudget{},
	}
}

// Acquire waits until an owner may read so many bytes, or the whole budget if that is less. It returns the number of
// bytes and the function that releases them. The only error is ctx's.
func (b *memoryBudget) Acquire(ctx context.Context, owner string, bytes int) (granted int, release func(), err error) {
	defer b.metrics.ReadWaits()()
	own := b.enter(owner)
	if err := own.turns.Acquire(ctx, 1); err != nil {
		b.exit(owner, own)
		return 0, nil, err
	}
	n := min(int64(bytes), b.size)
	if err := b.total.Acquire(ctx, n); err != nil {
		own.turns.Release(1)
		b.exit(owner, own)
		return 0, nil, err
	}
	b.metrics.ReadBytes(n)
	return int(n), func() {
		b.metrics.ReadBytes(-n)
		b.total.Release(n)
		own.turns.Release(1)
		b.exit(owner, own)
	}, nil
}

func (b *memoryBudget) enter(owner string) *ownerBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.owners[owner]
	if own == nil {
		own = &ownerBudget{turns: semaphore.NewWeighted(turnsPerOwner)}
		b.owners[owner] = own
	}
	own.users++
	return own
}

func (b *memoryBudget) exit(owner string, own *ownerBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(b.owners, owner)
	}
}
