package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-dev/tidemark/lease"
)

// term is the time in which this server holds the lease of a queue, or asks for it.
type term struct {
	queue   string
	decided chan struct{} // closed when the lease was granted or refused
	loop    *loop         // nil until it was granted
	err     error         // of the request, once it was decided
}

// held returns the loop of a queue whose lease this server holds, or nil.
func (s *Synchronizer) held(queue string) *loop {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.terms[queue]; t != nil {
		return t.loop
	}
	return nil
}

// lead asks for the lease of a queue. It returns nil if the call must look for the queue's synchronizer again: this
// server has become it, another one has, or the call that asked for the lease has given up.
func (s *Synchronizer) lead(ctx context.Context, queue string) error {
	s.mu.Lock()
	t, known := s.terms[queue]
	if !known {
		t = &term{queue: queue, decided: make(chan struct{})}
		s.terms[queue] = t
	}
	s.mu.Unlock()
	if !known {
		select {
		case s.starts <- t:
		case <-s.ended:
			s.forget(t)
			s.decide(t, nil, errChanged)
		case <-ctx.Done():
			s.forget(t)
			s.decide(t, nil, nil) // the calls that wait for it try again
			return context.Cause(ctx)
		}
	}
	select {
	case <-t.decided:
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// decide records the outcome of the request for a lease.
func (s *Synchronizer) decide(t *term, l *loop, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-t.decided:
	default:
		t.loop, t.err = l, err
		close(t.decided)
	}
}

// forget removes a term that has ended, unless the next one has begun.
func (s *Synchronizer) forget(t *term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terms[t.queue] == t {
		delete(s.terms, t.queue)
	}
}

// runTerm asks for the lease of a queue, and runs the queue's cycles while it has it.
func (s *Synchronizer) runTerm(ctx context.Context, t *term) {
	defer s.forget(t)
	err := s.leases.TryHold(ctx, t.queue, func(ctx context.Context, fence uint64) error {
		l := newLoop(s, t.queue)
		s.o.Metrics.Synchronizing(t.queue, true)
		s.serve(ctx, t, l, fence)
		return nil
	})
	switch {
	case errors.Is(err, lease.ErrHeld):
		err = nil
	case ctx.Err() != nil:
		err = errChanged
	case err != nil && !errors.Is(err, lease.ErrLost):
		err = fmt.Errorf("become the synchronizer of queue %s: %w", t.queue, err)
	}
	s.decide(t, nil, err)
}

// serve runs the cycles of a queue, with the calls of this server and those that other servers hand over.
func (s *Synchronizer) serve(ctx context.Context, t *term, l *loop, fence uint64) {
	var working sync.WaitGroup
	defer working.Wait()
	receiving, stop := context.WithCancel(ctx)
	defer stop()
	h := newReceiver(l, fence)
	listening := s.o.Handover.ListenCalls(t.queue, h.listener())
	defer listening()
	working.Go(func() { h.run(receiving) })
	s.decide(t, l, nil)
	l.run(ctx)
	s.o.Metrics.Synchronizing(t.queue, false)
	s.forget(t) // a call may begin the next one while the calls of this one end
}
