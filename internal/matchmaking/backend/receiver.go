package backend

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// receiver serves the calls that other servers hand over to this one's loop.
type receiver struct {
	*loop
	fence   uint64
	arrived chan struct{} // buffered (capacity 1): new has grown

	mu    sync.Mutex
	new   []*handedCall
	calls map[string]*handedCall
}

// handedCall is one call that another server has handed over.
type handedCall struct {
	id      string
	request []byte
	cancel  context.CancelCauseFunc // nil: it hasn't begun
	seen    time.Time               // last sign of life
	asked   chan struct{}           // buffered (capacity 1): it has given one
	left    bool
}

var (
	errSilent = errChanged.WithCause(errors.New("the server that handed the call over is silent"))
	errLeft   = errors.New("the caller has left")
)

func newReceiver(l *loop, fence uint64) *receiver {
	return &receiver{loop: l, fence: fence, arrived: make(chan struct{}, 1), calls: map[string]*handedCall{}}
}

// listener returns the functions that receive messages of callers.
func (r *receiver) listener() CallListener { return CallListener{Alive: r.alive, Left: r.gone} }

func (r *receiver) alive(id string, request []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.calls[id]; c != nil {
		c.seen = time.Now()
		pace.Signal(c.asked)
		return
	}
	if len(request) == 0 || len(r.calls) >= r.s.o.Limits.Calls {
		return // it is repeated
	}
	c := &handedCall{id: id, request: request, seen: time.Now(), asked: make(chan struct{}, 1)}
	r.calls[id], r.new = c, append(r.new, c)
	pace.Signal(r.arrived)
}

func (r *receiver) gone(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.calls[id]; c != nil {
		c.left = true
		if c.cancel != nil {
			c.cancel(errLeft)
		}
	}
}

// run serves calls until ctx ends, and all of them have ended.
func (r *receiver) run(ctx context.Context) {
	var serving sync.WaitGroup
	defer serving.Wait()
	tick := time.NewTicker(r.s.o.Limits.Silence / 5)
	defer tick.Stop()
	for {
		select {
		case <-r.arrived:
			for _, c := range r.take() {
				serving.Go(func() {
					defer r.forget(c)
					r.serve(ctx, c)
				})
			}
		case <-tick.C:
			r.dropSilent()
		case <-ctx.Done():
			return
		}
	}
}

func (r *receiver) take() []*handedCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.new
	r.new = nil
	return all
}

func (r *receiver) forget(c *handedCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, c.id)
}

// dropSilent cancels calls whose servers have been silent for too long.
func (r *receiver) dropSilent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c.cancel != nil && time.Since(c.seen) > r.s.o.Limits.Silence {
			c.cancel(errSilent)
		}
	}
}

// begin returns the context of a call, unless its caller has left.
func (r *receiver) begin(ctx context.Context, c *handedCall) (context.Context, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.left {
		return nil, false
	}
	ctx, c.cancel = context.WithCancelCause(ctx)
	return ctx, true
}

// present reports whether the caller hasn't left, and isn't silent.
func (r *receiver) present(c *handedCall) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !c.left && time.Since(c.seen) <= r.s.o.Limits.Silence
}

// serve serves one call until ctx ends.
func (r *receiver) serve(ctx context.Context, h *handedCall) {
	calling, ok := r.begin(ctx, h)
	if !ok {
		return
	}
	defer h.cancel(nil)
	if !r.enter() {
		return // the caller finds the lease free
	}
	defer r.part()
	a := &answering{receiver: r, handedCall: h, next: 1}
	err := r.s.o.Handover.Accept(calling,
		AcceptRequest{Queue: r.name, ID: h.id, Fence: r.fence, Attempt: rand.Text()})
	if err == nil {
		err = a.serve(calling)
	}
	if err != nil {
		a.revoke(ctx, err)
	}
}

// answering is the answers of one call.
type answering struct {
	*receiver
	*handedCall
	next int // number of the next answer
}

// serve runs a call in the loop, and writes its matches and its end as answers. It returns an error if the call has to
// be revoked.
func (a *answering) serve(ctx context.Context) error {
	size := len(a.request)
	if err := a.s.begin(size); err != nil {
		return err
	}
	defer a.s.end(size)
	var request FetchRequest
	if err := json.Unmarshal(a.request, &request); err != nil {
		return err
	}
	a.request = nil
	c := newCall(ctx, request, a.s)
	defer c.close()
	c.handed = true
	a.add(c)
	for {
		taken, end := c.take(ctx)
		if len(taken) == 0 {
			a.release(ctx, c.abandon(end))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return a.end(ctx, end)
		}
		if unsent, err := a.send(ctx, c, taken); err != nil {
			a.release(ctx, append(unsent, c.abandon(err)...))
			return err
		}
	}
}

// send writes the answers of matches of a call, some at a time, and returns those that were certainly not written.
// While the caller has too many unread answers, it waits.
func (a *answering) send(ctx context.Context, c *call, matches []handedOut) (unsent []handedOut, err error) {
	for len(matches) > 0 {
		r := AnswerRequest{Queue: a.name, ID: a.id, First: a.next, Limit: a.s.o.Limits.BufferBytes}
		for bytes := 0; len(r.Answers) < len(matches) && bytes < answerBytes; {
			text, err := encodeMatch(matches[len(r.Answers)])
			if err != nil {
				return matches, err
			}
			r.Answers, bytes = append(r.Answers, text), bytes+len(text)
		}
		// An answer that is on its way may be read, also if the caller leaves or is lost meanwhile.
		switch err := a.s.o.Handover.Answer(context.WithoutCancel(ctx), r); {
		case errors.Is(err, ErrCallFull):
			if left := c.patience(); left <= 0 {
				return matches, errSlow
			} else if !pace.SleepUntil(ctx, left, a.asked) {
				return matches, context.Cause(ctx)
			}
			continue
		case errors.Is(err, ErrCallGone):
			return matches, err
		case err != nil:
			return matches[len(r.Answers):], err
		}
		c.passed(matches[:len(r.Answers)]...)
		matches, a.next = matches[len(r.Answers):], a.next+len(r.Answers)
	}
	return nil, nil
}

// end writes the end of the call.
func (a *answering) end(ctx context.Context, err error) error {
	text, err := encodeEnd(err)
	if err != nil {
		return err
	}
	return a.s.o.Handover.Answer(ctx, AnswerRequest{Queue: a.name, ID: a.id, First: a.next, Answers: [][]byte{text}})
}

// revoke ends a call that failed, perhaps after it was accepted, and releases the tickets of what its caller has not
// read. It tries until the caller is silent, or ctx ends: then the caller finds that the lease has changed.
func (a *answering) revoke(ctx context.Context, why error) {
	if errors.Is(why, ErrCallGone) {
		return
	}
	var failure *Failure
	var f *fault.Error
	if !errors.As(why, &failure) && !errors.As(why, &f) {
		why = errChanged
	}
	last, err := encodeEnd(why)
	if err != nil {
		return
	}
	for waits := pace.NewBackoff(); ; {
		unread, err := a.leave(ctx, last)
		a.releaseFailing.Report(ctx, err)
		if err == nil {
			matches, _, _ := decodeAnswers(unread)
			a.release(ctx, matches)
			return
		}
		if !a.present(a.handedCall) || !pace.Sleep(ctx, waits.NextBackOff()) {
			return
		}
	}
}

// leave calls Leave, also after ctx has ended.
func (a *answering) leave(ctx context.Context, last []byte) (unread [][]byte, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	return a.s.o.Handover.Leave(ctx, LeaveRequest{Queue: a.name, ID: a.id, Last: last})
}
