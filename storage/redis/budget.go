package redis

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// budget bounds how many bytes of large fetches are under way from Redis at the same time. Fetches queue for their
// share, first come, first served. No channel has more than two fetches in that queue: the others of the channel queue
// behind them, so that a channel with many subscribers doesn't keep those of other channels waiting.
type budget struct {
	size    int64
	total   *semaphore.Weighted
	metrics metrics

	mu       sync.Mutex
	channels map[string]*channelBudget
}

type channelBudget struct {
	turns *semaphore.Weighted
	users int // guarded by the budget's lock
}

// turnsPerChannel lets one fetch of a channel read while another one is decoded.
const turnsPerChannel = 2

func newBudget(size int, m metrics) *budget {
	return &budget{
		size: int64(size), total: semaphore.NewWeighted(int64(size)), metrics: m, channels: map[string]*channelBudget{},
	}
}

// acquire waits for the right to have so many bytes of a channel under way, or for all of the budget where that is less.
// It returns the bytes, and what gives them back. The only error is ctx's.
func (b *budget) acquire(ctx context.Context, channel string, bytes int) (granted int, release func(), err error) {
	defer b.metrics.largeFetchWaits()()
	own := b.enter(channel)
	if err := own.turns.Acquire(ctx, 1); err != nil {
		b.exit(channel, own)
		return 0, nil, err
	}
	n := min(int64(bytes), b.size)
	if err := b.total.Acquire(ctx, n); err != nil {
		own.turns.Release(1)
		b.exit(channel, own)
		return 0, nil, err
	}
	b.metrics.largeFetchBytes(n)
	return int(n), func() {
		b.metrics.largeFetchBytes(-n)
		b.total.Release(n)
		own.turns.Release(1)
		b.exit(channel, own)
	}, nil
}

func (b *budget) enter(channel string) *channelBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.channels[channel]
	if own == nil {
		own = &channelBudget{turns: semaphore.NewWeighted(turnsPerChannel)}
		b.channels[channel] = own
	}
	own.users++
	return own
}

func (b *budget) exit(channel string, own *channelBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(b.channels, channel)
	}
}
