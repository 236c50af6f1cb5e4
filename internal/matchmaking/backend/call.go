package backend

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// call is a call of Fetch in this server's cycles, with the buffer of its matches. A cycle adds to the buffer and ends
// the call; one goroutine takes matches from it. It may be used by many goroutines.
type call struct {
	FetchRequest
	ctx          context.Context //nolint:containedctx // of the caller: the call lives in the queue's loop
	synchronizer *Synchronizer
	ready        chan struct{} // buffered (capacity 1): awaitMatches has something to do

	mu         sync.Mutex
	cancel     context.CancelCauseFunc // of the function; nil: it never ran
	onEnd      func()                  // of the cycle; nil: it is in none
	buffer     []handedOut
	bytes      int       // of matches that were delivered and not passed on
	lastPassed time.Time // when a match was passed on, or the first of those was delivered
	ended      bool      // nothing is added to the buffer any more
	err        error
	failed     error // of the function; guarded by the cycle
}

// handedOut is a match whose tickets are handed out, and what is needed to release them.
type handedOut struct {
	Match
	token   string
	tickets []string // IDs
	// until is when the tickets may be in another match, or earlier: of this process's monotonic clock.
	until time.Time
	bytes int // in the room of the server
}

// rounding is by how much the time that is left may be too long: the storage's clock counts whole milliseconds.
const rounding = time.Millisecond

// passTo passes a match on to its caller, unless its tickets may be in another match by now.
func (m handedOut) passTo(each func(Match) error) error {
	if !time.Now().Before(m.until) {
		return errSlow
	}
	return each(m.Match)
}

// room limits the bytes that the calls of a server keep in memory. It may be used by many goroutines.
type room struct {
	limit int

	mu   sync.Mutex
	used int
}

// acquire reports whether there was room. The caller must release the bytes.
func (r *room) acquire(bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+bytes > r.limit {
		return false
	}
	r.used += bytes
	return true
}

func (r *room) release(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= bytes
}

func newCall(ctx context.Context, r FetchRequest, s *Synchronizer) *call {
	return &call{FetchRequest: r, ctx: ctx, synchronizer: s, ready: make(chan struct{}, 1)}
}

// begin returns the context of the call's function, which end cancels. It returns false if the call has ended. onEnd is
// called when it ends.
func (c *call) begin(onEnd func()) (ctx context.Context, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.ctx.Err() != nil {
		return nil, false
	}
	ctx, c.cancel = context.WithCancelCause(c.ctx)
	c.onEnd = onEnd
	return ctx, true
}

// stop cancels the function, and leaves the call open for matches that are still accepted.
func (c *call) stop(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel(cause)
	}
}

// end ends the call with its error, nil for none, and cancels the function. What is in the buffer can still be taken.
// Only the first end counts.
func (c *call) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(err)
}

func (c *call) endLocked(err error) {
	if c.ended {
		return
	}
	c.ended, c.err = true, err
	if c.cancel != nil {
		c.cancel(err)
		c.onEnd()
	}
	pace.Signal(c.ready)
}

// hasEnded reports whether the call has ended.
func (c *call) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// deliver adds a match to the buffer, whose room the call frees from now on. It returns the match if the call has
// ended. It ends the call, and returns all of the buffer, if the call has passed on nothing for too long.
func (c *call) deliver(m handedOut) (refused []handedOut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes > 0 && time.Since(c.lastPassed) > c.synchronizer.options.Limits.Stall {
		refused = c.abandonLocked(errSlow)
	}
	if c.ended {
		c.synchronizer.room.release(m.bytes)
		return append(refused, m)
	}
	if c.bytes == 0 {
		c.lastPassed = time.Now()
	}
	c.buffer, c.bytes = append(c.buffer, m), c.bytes+m.bytes
	pace.Signal(c.ready)
	return nil
}

// passed records that matches were passed on.
func (c *call) passed(matches ...handedOut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freeLocked(matches)
	c.lastPassed = time.Now()
}

func (c *call) freeLocked(matches []handedOut) {
	for _, m := range matches {
		c.bytes -= m.bytes
		c.synchronizer.room.release(m.bytes)
	}
}

// awaitMatches waits for matches and takes them all from the buffer. They occupy room until passed or close is called.
// Without any the call has ended with err, or ctx has.
func (c *call) awaitMatches(ctx context.Context) (taken []handedOut, err error) {
	for {
		c.mu.Lock()
		taken, c.buffer = c.buffer, nil
		ended, err := c.ended, c.err
		c.mu.Unlock()
		if len(taken) > 0 {
			return taken, nil
		}
		if ended {
			return nil, err
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// abandon ends a call whose caller has gone, and returns what is in the buffer.
func (c *call) abandon(cause error) []handedOut {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.abandonLocked(cause)
}

func (c *call) abandonLocked(cause error) []handedOut {
	c.endLocked(cause)
	rest := c.buffer
	c.buffer = nil
	c.freeLocked(rest)
	return rest
}

// close frees the room of what was taken and not passed on. The call's caller has gone, and its buffer is empty.
func (c *call) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synchronizer.room.release(c.bytes)
	c.bytes = 0
}

// handOutOf returns the hand-out of a proposal in a queue.
func handOutOf(queue string, p Proposal) matchmaking.HandOutMatch {
	seen := make(map[string]bool, len(p.Tickets))
	m := matchmaking.HandOutMatch{Backfill: p.Backfill}
	for _, t := range p.Tickets {
		if !seen[t.ID] {
			seen[t.ID] = true
			m.Tickets = append(m.Tickets, t)
		}
	}
	if p.Backfill != nil && p.Backfill.ID == "" {
		created := *p.Backfill
		created.ID, created.Create = matchmaking.NewBackfillID(queue), true
		m.Backfill = &created
	}
	return m
}

// idsOf returns the IDs of the tickets of a match.
func idsOf(m matchmaking.HandOutMatch) []string {
	ids := make([]string, len(m.Tickets))
	for i, t := range m.Tickets {
		ids[i] = t.ID
	}
	return ids
}
