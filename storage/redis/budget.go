package redis

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// readBudget limits how many bytes of large reads are in transit from Redis at the same time. Reads queue for their
// share in order of arrival. An owner, such as a channel, has at most turnsPerOwner reads in that queue; its other
// reads wait for these, so that a channel with many subscribers doesn't delay other channels.
type readBudget struct {
	size    int64
	total   *semaphore.Weighted
	metrics metrics

	mu     sync.Mutex
	owners map[string]*ownerReads
}

// ownerReads holds the reads of one owner.
type ownerReads struct {
	turns *semaphore.Weighted
	users int // guarded by the budget's lock
}

// turnsPerOwner allows an owner to transfer one read while it decodes another one.
const turnsPerOwner = 2

// newReadBudget returns a budget of a number of bytes.
func newReadBudget(size int, m metrics) *readBudget {
	return &readBudget{
		size: int64(size), total: semaphore.NewWeighted(int64(size)), metrics: m, owners: map[string]*ownerReads{},
	}
}

// acquire waits until an owner may read a number of bytes, or the whole budget if that is less. It returns the number
// of bytes and the function that releases them. The only error is ctx's.
func (b *readBudget) acquire(ctx context.Context, owner string, bytes int) (granted int, release func(), err error) {
	defer b.metrics.readWaits()()
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
	b.metrics.readBytes(n)
	return int(n), func() {
		b.metrics.readBytes(-n)
		b.total.Release(n)
		own.turns.Release(1)
		b.exit(owner, own)
	}, nil
}

func (b *readBudget) enter(owner string) *ownerReads {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.owners[owner]
	if own == nil {
		own = &ownerReads{turns: semaphore.NewWeighted(turnsPerOwner)}
		b.owners[owner] = own
	}
	own.users++
	return own
}

func (b *readBudget) exit(owner string, own *ownerReads) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(b.owners, owner)
	}
}
