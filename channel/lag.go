package channel

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// The bounds of what a server reads for the metrics of lags: one script for each of maxLagChannels channels in lagEvery,
// the first DefaultPage subscribers of each, and maxLagSubscribers in total.
const (
	lagEvery          = 15 * time.Second
	maxLagChannels    = 100
	maxLagSubscribers = 1000
)

// Lag is how far a subscriber was behind its channel when that was read.
type Lag struct {
	Channel, Subscriber string
	Positions           uint64 // from the mark to the channel's clock
}

// lagWatch reads the lags of subscribers periodically, for the channels that this server has used and whose policy has
// LagMetrics.
type lagWatch struct {
	store Store
	log   *slog.Logger

	mu         sync.RWMutex
	channels   map[string]watchedLags
	refused    bool // a channel beyond maxLagChannels was used since the last read began
	incomplete bool // the last read left out channels or subscribers
}

type watchedLags struct {
	policy Policy
	found  []Lag
}

// use adds a channel. It is called for each operation on a channel.
func (w *lagWatch) use(channel string, policy Policy) {
	w.mu.RLock()
	_, ok := w.channels[channel]
	full := w.refused && len(w.channels) >= maxLagChannels
	w.mu.RUnlock()
	if ok || full {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch _, ok := w.channels[channel]; {
	case ok:
	case len(w.channels) >= maxLagChannels:
		w.refused = true
	default:
		w.channels[channel] = watchedLags{policy: policy}
	}
}

// forget removes all channels, whose policies may have changed: they are added when they are used again.
func (w *lagWatch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.channels)
}

// run reads until ctx ends.
func (w *lagWatch) run(ctx context.Context) {
	for pace.Sleep(ctx, pace.Jitter(lagEvery)) {
		w.read(ctx)
	}
}

// read reads all channels with one script each, and removes those that don't exist. The lags of a channel that can't be
// read stay as they are.
func (w *lagWatch) read(ctx context.Context) {
	w.mu.Lock()
	incomplete := w.refused
	w.refused = false
	channels := maps.Clone(w.channels)
	w.mu.Unlock()
	room := maxLagSubscribers
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		watched := channels[name]
		d, err := w.store.Describe(ctx, DescribeRequest{Channel: name, Policy: watched.policy,
			Page: Page{Limit: DefaultPage}})
		switch {
		case errors.Is(err, ErrNoChannel):
			w.remove(name)
			continue
		case err != nil:
			w.log.DebugContext(ctx, "cannot read the lags of a channel", "channel", name, "error", err)
		default:
			watched.found = make([]Lag, min(len(d.Subscribers), room))
			for i := range watched.found {
				watched.found[i] = Lag{Channel: name, Subscriber: d.Subscribers[i].Name, Positions: d.Subscribers[i].Lag}
			}
			incomplete = incomplete || d.Next != 0 || len(watched.found) < len(d.Subscribers)
		}
		room = max(0, room-len(watched.found))
		w.mu.Lock()
		if _, ok := w.channels[name]; ok {
			w.channels[name] = watched
		}
		w.mu.Unlock()
	}
	w.mu.Lock()
	w.incomplete = incomplete
	w.mu.Unlock()
}

func (w *lagWatch) remove(channel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.channels, channel)
}

// Lags returns the lags that were read last of subscribers of channels whose policy has LagMetrics and that this server
// has used. complete reports whether none was left out because there are too many.
func (s *Service) Lags() (lags []Lag, complete bool) {
	w := s.lags
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, watched := range w.channels {
		lags = append(lags, watched.found...)
	}
	return lags, !w.incomplete
}
