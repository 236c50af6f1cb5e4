package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// Bounds of the messages that a stream of Consume or ConsumeMany may be ahead of Handle and of acknowledgements.
const (
	followedWindow = 256     // messages of a source that aren't acknowledged, if it is one of a few
	followedTotal  = 1024    // the same of all sources together, but leastWindow of each
	leastWindow    = 16      // with the largest number of sources
	readAhead      = 8 << 20 // bytes of messages that Handle hasn't had, with arrivalCost for each
	arrivalCost    = 512
	defaultUnacked = 64 // messages handled and not acknowledged if Max is 0, as many as a fetch has then
)

// When another stream is opened after one that failed. Until then the consumer polls.
const (
	brokenPause  = time.Second // upper bound of the pause after the first failure; it is doubled by each further one
	uselessPause = time.Minute // the same, if there are no streams or nothing arrives on them
	longestPause = 10 * time.Minute
	steadyStream = 30 * time.Second // a stream that lasts longer ends a series of failures
)

// follower reads streams for Consume and ConsumeMany. After a stream that failed they poll first: so each refusal is
// that of a poll, which is tried again as the RetryPolicy says, and messages are read where there are no streams.
type follower struct {
	client  *Client
	unacked int           // most messages that are handled and not acknowledged
	pause   time.Duration // upper bound of the last pause; 0: none
	after   time.Time     // no stream is opened before
}

func (c *Client) newFollower(limit int) *follower {
	if limit == 0 {
		limit = defaultUnacked
	}
	return &follower{client: c, unacked: limit}
}

// due reports whether to open a stream now.
func (f *follower) due() bool { return !f.client.pollOnly && !time.Now().Before(f.after) }

// follow opens streams, calls take for each arrival, in order, and acknowledges those that were handled. When it
// returns, from has the receipts that the service may not have received. The error is that of take, or of ctx. Without
// an error the caller must poll: streams are broken, refused or useless.
func (f *follower) follow(ctx context.Context, from []Source, handle func(Arrival) (handled bool, err error)) error {
	for {
		run := &following{
			follower: f, from: from, changed: make(chan struct{}, 1), handled: make(chan struct{}, 1),
			ahead: semaphore.NewWeighted(readAhead),
		}
		if err := run.run(ctx, handle); err != nil {
			return err
		}
		if !f.again(run) {
			return nil
		}
	}
}

// again reports whether to open another stream at once, and otherwise sets the pause until the next one.
func (f *follower) again(last *following) bool {
	end, lasted := last.end, last.lasted
	if lasted > steadyStream {
		f.pause = 0
	}
	var ended *StreamEnd
	if errors.As(end, &ended) && (ended.Reason == EndWindow || ended.Reason == EndAge) && (last.some || f.pause == 0) {
		f.pause = 0
		return true
	}
	first := brokenPause
	var refused *Error
	switch {
	case errors.As(end, new(*SourceError)): // the poll tells the consumer
	case errors.Is(end, ErrNoStream), errors.Is(end, errSilent), errors.Is(end, errLargeEvent),
		errors.As(end, &refused) && !f.client.retry.again(end):
		first = uselessPause
	}
	f.pause = min(max(2*f.pause, first), longestPause)
	f.after = time.Now().Add(rand.N(f.pause) + atLeast(end)) //nolint:gosec // it spreads load and keeps no secret
	return false
}

// following is one stream.
type following struct {
	*follower

	changed chan struct{} // buffered (capacity 1): next looks again
	handled chan struct{} // buffered (capacity 1): there is something to acknowledge
	ahead   *semaphore.Weighted

	mu      sync.Mutex
	from    []Source // with the receipts that aren't acknowledged
	arrived []Arrival
	over    bool  // nothing more arrives
	refused bool  // an acknowledgement was refused, or failed for long
	pending int   // messages handled and not acknowledged
	unsent  int   // of these: since the last acknowledgement was sent
	end     error // of the stream
	lasted  time.Duration
	some    bool // something has arrived
}

func (r *following) run(ctx context.Context, handle func(Arrival) (handled bool, err error)) error {
	inner, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	from := slices.Clone(r.from)
	running.Go(func() { r.read(inner, from) })
	running.Go(func() { r.acknowledge(inner) })
	for {
		a, ok := r.next(ctx)
		switch {
		case ctx.Err() != nil:
			return ended(ctx)
		case !ok:
			return nil
		}
		handled, err := handle(a)
		if err != nil { // the caller sends the last acknowledgement
			cancel()
			running.Wait()
		}
		if handled {
			r.took(a)
		}
		if err != nil {
			return err
		}
	}
}

// read reads the stream.
func (r *following) read(ctx context.Context, from []Source) {
	began := time.Now()
	window := min(max(followedTotal/len(from), leastWindow), followedWindow)
	err := r.client.stream(ctx, from, StreamOptions{Window: window}, func(a Arrival) bool {
		if r.ahead.Acquire(ctx, costOf(a)) != nil {
			return false
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.arrived, r.some = append(r.arrived, a), true
		pace.Signal(r.changed)
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over, r.end, r.lasted = true, err, time.Since(began)
	pace.Signal(r.changed)
}

func costOf(a Arrival) int64 {
	cost := arrivalCost
	if a.Message != nil {
		cost += len(a.Message.Content)
	}
	return min(int64(cost), readAhead)
}

// next returns the next arrival for take. It waits until there is one, and while too many messages aren't acknowledged.
// It returns false when the stream has ended and no arrival is left, when it must end, and when ctx ends.
func (r *following) next(ctx context.Context) (Arrival, bool) {
	for {
		switch a, over := r.pop(); {
		case a != nil:
			r.ahead.Release(costOf(*a))
			return *a, true
		case over:
			return Arrival{}, false
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return Arrival{}, false
		}
	}
}

// pop removes the first arrival. Without one, over reports whether there won't be any.
func (r *following) pop() (first *Arrival, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.refused || r.over && len(r.arrived) == 0:
		return nil, true
	case len(r.arrived) == 0 || r.pending >= r.unacked:
		return nil, false
	}
	a := r.arrived[0]
	r.arrived[0] = Arrival{} // its content isn't kept
	if r.arrived = r.arrived[1:]; len(r.arrived) == 0 {
		r.arrived = nil
	}
	return &a, false
}

// took notes that an arrival was handled. Handled arrivals are acknowledged when no other waits to be handled, or when
// they are half of the messages that may be unacknowledged: so the next ones are handled while the acknowledgement is
// under way.
func (r *following) took(a Arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.from {
		if a.ReceiptHandle != "" && sameSource(&r.from[i], &a.Source) {
			r.from[i].ReceiptHandle, r.from[i].LastReceiptHandle = a.ReceiptHandle, a.ReceiptHandle
			r.pending++
			r.unsent++
		} else if a.Gap != nil && a.Gap.Reason == GapLost && sameSource(&r.from[i], &a.Source) {
			clearReceipts(&r.from[i]) // it is reported once
		}
	}
	if r.unsent > 0 && (len(r.arrived) == 0 || 2*r.unsent >= r.unacked) {
		pace.Signal(r.handled)
	}
}

func sameSource(s, other *Source) bool {
	return s.Channel == other.Channel && s.Subscriber == other.Subscriber
}

// acknowledge sends the newest receipts, one request after the other.
func (r *following) acknowledge(ctx context.Context) {
	for {
		select {
		case <-r.handled:
		case <-ctx.Done():
			return
		}
		sent, n := r.toSend()
		err := r.client.ackEach(ctx, sent)
		if ctx.Err() != nil {
			return // the receipts stay in from
		}
		r.acknowledged(sent, n, err)
	}
}

// toSend returns the sources with receipts, and of how many messages they are.
func (r *following) toSend() ([]Source, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsent = 0
	return withReceipts(r.from), r.pending
}

func (r *following) acknowledged(sent []Source, n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pace.Signal(r.changed)
	if err != nil {
		r.refused = true
		return
	}
	r.pending -= n
	for _, s := range sent {
		if i := slices.Index(r.from, s); i >= 0 {
			r.from[i].ReceiptHandle = ""
		}
	}
}
