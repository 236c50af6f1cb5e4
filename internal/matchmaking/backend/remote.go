package backend

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

const (
	askBefore   = 250 * time.Millisecond // between two requests of a call that isn't accepted
	answerBytes = 1 << 20                // of the answers that are written or read together

	// CallTTL is how long a call is stored without a sign of life of its caller.
	CallTTL = 15 * time.Second
)

// remote is a call of this server that another one serves.
type remote struct {
	s       *Synchronizer
	queue   string
	id      string
	request []byte
	answers chan struct{} // buffered (capacity 1): there may be new answers
	cancel  context.CancelCauseFunc

	mu       sync.Mutex
	accepted bool
}

// handOver hands a call over to the holder of its queue's lease, and passes the answers to each. Errors: ErrNoHolder,
// and those of Fetch.
func (s *Synchronizer) handOver(ctx context.Context, r FetchRequest, each func(Match) error) error {
	request, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a call: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	call := &remote{
		s: s, queue: r.Queue, id: rand.Text(), request: request, answers: make(chan struct{}, 1), cancel: cancel,
	}
	defer s.listen(call)()
	keeping := make(chan struct{})
	go func() {
		defer close(keeping)
		call.keep(ctx)
	}()
	after, unread, err := call.read(ctx, each)
	cancel(nil)
	<-keeping
	call.leave(ctx, after, unread)
	if errors.Is(err, ErrHolderGone) {
		return errChanged
	}
	return err
}

// keep keeps the call alive until ctx ends. An error ends the call: the store has repeated the attempt by then.
func (c *remote) keep(ctx context.Context) {
	for {
		asked, err := c.ask(ctx, 0, 0)
		if err != nil {
			c.cancel(err)
			return
		}
		if asked.More {
			pace.Signal(c.answers)
		}
		wait := askBefore
		if asked.Accepted {
			wait = c.s.o.Limits.Silence / 5
		}
		if !pace.Sleep(ctx, wait) {
			return
		}
	}
}

// ask calls Ask, and records that the call was accepted.
func (c *remote) ask(ctx context.Context, after, bytes int) (Asked, error) {
	c.mu.Lock()
	r := AskRequest{Queue: c.queue, ID: c.id, Accepted: c.accepted, After: after, Bytes: bytes}
	c.mu.Unlock()
	if !r.Accepted {
		r.Request = c.request
	}
	asked, err := c.s.o.Handover.Ask(ctx, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted = c.accepted || err == nil && asked.Accepted
	return asked, err
}

// read passes answers to each until the end of the call. It returns the number of the last answer that it has read, and
// the matches among those that each has not got.
func (c *remote) read(ctx context.Context, each func(Match) error) (after int, unread []handedOut, err error) {
	for {
		select {
		case <-c.answers:
		case <-ctx.Done():
			return after, nil, context.Cause(ctx)
		}
		for more := true; more; {
			then := time.Now()
			asked, err := c.ask(ctx, after, answerBytes)
			if err != nil {
				return after, nil, err
			}
			after, more = after+len(asked.Answers), asked.More
			if unread, end, err := c.pass(then, asked, each); end || err != nil {
				return after, unread, err
			}
		}
	}
}

// pass passes the matches of answers, which were asked for since then, to each. It returns those that each has not got,
// and reports the end of the call.
func (c *remote) pass(then time.Time, asked Asked, each func(Match) error) (unread []handedOut, end bool, err error) {
	matches, end, err := decodeAnswers(asked.Answers)
	size := 0
	for _, m := range matches {
		size += len(m.Content)
	}
	if !c.s.room.take(size) {
		return matches, true, errNoRoom
	}
	defer c.s.room.free(size)
	for i, m := range matches {
		m.until = then.Add(m.held.Sub(asked.Now) - rounding)
		if err := m.pass(each); err != nil {
			return matches[i:], true, err
		}
	}
	return nil, end, err
}

// leave removes the call, and releases the tickets of matches that its caller has not got: unread, and those of answers
// after a number.
func (c *remote) leave(ctx context.Context, after int, unread []handedOut) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	left, err := c.s.o.Handover.Leave(ctx, LeaveRequest{Queue: c.queue, ID: c.id, After: after})
	if err != nil { // it expires, and the holder notices that its caller is silent
		c.s.o.Logger.DebugContext(ctx, "cannot end a call that was handed over", "queue", c.queue, "error", err)
	}
	more, _, _ := decodeAnswers(left)
	if unread = append(unread, more...); len(unread) == 0 {
		return
	}
	if err := c.s.release(ctx, c.queue, unread); err != nil {
		c.s.o.Logger.WarnContext(ctx, "cannot release tickets of matches that were not read", "queue", c.queue,
			"error", err)
	}
}

// waiting is the calls of one queue that this server has handed over. It listens for their answers.
type waiting struct {
	stop  func()
	calls map[string]*remote
}

// listen makes new answers signal a call, until forget is called.
func (s *Synchronizer) listen(c *remote) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.remote[c.queue]
	if w == nil {
		w = &waiting{calls: map[string]*remote{}}
		s.remote[c.queue] = w
		w.stop = s.o.Handover.ListenAnswers(c.queue, func(id string) { s.answered(w, id) })
	}
	w.calls[c.id] = c
	return func() {
		s.mu.Lock()
		delete(w.calls, c.id)
		last := len(w.calls) == 0
		if last {
			delete(s.remote, c.queue)
		}
		s.mu.Unlock()
		if last {
			w.stop()
		}
	}
}

func (s *Synchronizer) answered(w *waiting, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := w.calls[id]; c != nil {
		pace.Signal(c.answers)
	}
}
