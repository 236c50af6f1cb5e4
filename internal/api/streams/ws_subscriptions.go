package streams

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// subscription is a stream of a socket. It is the job of its task once the stream is open.
type subscription struct {
	task
	socket  *socket
	query   channel.StreamQuery
	part    unsent.Part     // contents that have been read and aren't queued yet
	ref     uint64          // of its subscribe
	values  context.Context //nolint:containedctx // the client and part; it doesn't end: see begin
	stopped atomic.Bool     // it ends

	// Of the goroutine that runs the job.
	stream Stream
	rest   []channel.Arrival // of Stream.Take, for which there was no room
	traced bool              // values are sampled
	alarm  alarm

	// Guarded by the socket's lock.
	cancel  context.CancelFunc // ends what is under way; nil: nothing is
	refused error              // why it is stopped, if its client may not read any more
	ended   uint64             // ref of the unsubscribe that ends it
	done    chan struct{}      // closed when it has ended, and that is answered; nil: no unsubscribe ends it
}

// stop ends the subscription. The socket's lock is held.
func (sub *subscription) stop() {
	sub.stopped.Store(true)
	if sub.cancel != nil {
		sub.cancel()
	}
	sub.schedule()
}

// begin returns a context for what may take a while, which stop ends. done must be called when that has ended: a
// subscription that waits needs no context.
func (sub *subscription) begin() (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(sub.values)
	sub.socket.mu.Lock()
	defer sub.socket.mu.Unlock()
	if sub.cancel = cancel; sub.stopped.Load() {
		cancel()
	}
	return ctx, func() {
		cancel()
		sub.socket.mu.Lock()
		defer sub.socket.mu.Unlock()
		sub.cancel = nil
	}
}

// err returns an error if the subscription ends.
func (sub *subscription) err() error {
	if sub.stopped.Load() {
		return context.Canceled
	}
	return nil
}

// of returns the names of the subscription in frames.
func (sub *subscription) of() wire.StreamSource {
	return wire.StreamSource{Channel: sub.query.From[0].Channel, Subscriber: sub.query.From[0].Subscriber}
}

// subscribe begins a subscription.
func (s *socket) subscribe(f *wire.ClientFrame) {
	from := channel.Source{Channel: f.Channel, Subscriber: f.Subscriber}
	if f.From != nil {
		tail := channel.From(*f.From)
		from.Tail = &tail
	}
	if err := s.allow(access.Subscribe, resourceOf(&from)); err != nil {
		s.fail(f.Ref, err)
		return
	}
	who := s.who.Load()
	s.awaitEnd(wire.StreamSource{Channel: f.Channel, Subscriber: f.Subscriber})
	sub := &subscription{socket: s, ref: f.Ref, query: channel.StreamQuery{Window: f.Window, Socket: true,
		Resume: cmp.Or(f.Resume, f.LastReceiptHandle), Ahead: f.Resume != "", From: []channel.Source{from}}}
	sub.task = task{scheduler: s.scheduler, job: sub}
	sub.query.Ready = sub.schedule
	sub.part = s.router.Answers().Part(s.client)
	sub.values = unsent.With(context.WithoutCancel(who.ctx), &sub.part)
	if err := s.enlist(who.ctx, sub); err != nil {
		s.fail(f.Ref, err)
		return
	}
	if !s.begin() {
		_, _ = s.delist(sub) // the socket ends
		return
	}
	s.recheckRules(sub) // they may have changed before it was enlisted
	go s.follow(sub)
}

// awaitEnd waits until a subscription has ended, if an unsubscribe has begun to end it.
func (s *socket) awaitEnd(of wire.StreamSource) {
	s.mu.Lock()
	var done chan struct{}
	if before := s.subscription(of); before != nil {
		done = before.done
	}
	s.mu.Unlock()
	if done != nil {
		<-done
	}
}

// subscription returns a subscription, or nil. The lock is held.
func (s *socket) subscription(of wire.StreamSource) *subscription {
	for _, sub := range s.subscriptions {
		if sub.of() == of {
			return sub
		}
	}
	return nil
}

// resourceOf returns what a subscription reads.
func resourceOf(from *channel.Source) access.Resource {
	return access.Resource{Channel: from.Channel, Subscriber: from.Subscriber, Tail: from.Tail != nil}
}

// enlist adds a subscription, and counts a wait if need be.
func (s *socket) enlist(ctx context.Context, sub *subscription) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.subscriptions)
	switch {
	case s.subscription(sub.of()) != nil:
		return errTwice
	case n == maxSubscriptions:
		return errTooMany
	}
	if !s.ending && n >= perWait*len(s.waits) {
		if err := s.wait(ctx, 1); err != nil {
			return err
		}
	}
	s.subscriptions = append(s.subscriptions, sub)
	s.counts.subscriptions.Inc()
	return nil
}

// delist removes a subscription. It returns the ref of the unsubscribe that has ended it, and the reason if the client
// may not read any more.
func (s *socket) delist(sub *subscription) (ended uint64, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscriptions = slices.DeleteFunc(s.subscriptions, func(other *subscription) bool { return other == sub })
	s.counts.subscriptions.Dec()
	if last := len(s.waits) - 1; last > 0 && len(s.subscriptions) <= perWait*last {
		s.keepWaits(last)
	}
	return sub.ended, sub.refused
}

// follow opens the stream of a subscription. Its task sends what arrives.
func (s *socket) follow(sub *subscription) {
	defer func() {
		if p := recover(); p != nil {
			sub.panicked(p)
		}
	}()
	stream, err := s.open(sub)
	if stream == nil {
		s.unopened(sub, err)
		sub.finish()
		return
	}
	sub.stream, sub.traced = stream, tracing.Sampled(sub.values)
	sub.enqueue()
}

// close closes the stream, if it is open.
func (sub *subscription) close() {
	if sub.stream != nil {
		sub.alarm.stop()
		sub.stream.Close()
		sub.stream = nil
	}
}

// finish is called once, when the subscription has ended.
func (sub *subscription) finish() {
	sub.close()
	sub.part.Close()
	sub.socket.mu.Lock()
	done := sub.done
	sub.socket.mu.Unlock()
	if done != nil {
		close(done)
	}
	sub.socket.running.Done()
}

// panicked ends the socket after a panic.
func (sub *subscription) panicked(p any) {
	sub.socket.router.LogPanic(sub.socket.id, p)
	go sub.socket.end(endInternal, websocket.StatusInternalError)
	sub.finish()
}

// quick queues the messages that have arrived, if there is room for them.
func (sub *subscription) quick(w *worker) (done bool) {
	s := sub.socket
	arrivals, again, done, good := sub.take(w)
	s.counts.messages.Add(float64(len(arrivals)))
	s.pipe.flush()
	if !good || !done || sub.stopped.Load() {
		return false
	}
	sub.alarm.set(again, time.Now(), &sub.task)
	return true
}

// take queues what Stream.Take returns as far as there is room, and leaves the rest to slow. It returns what it has
// queued. good is false if there was no room, or the connection has failed.
func (sub *subscription) take(w *worker) (arrivals []channel.Arrival, again time.Time, done, good bool) {
	s := sub.socket
	if !s.sending.TryLock() {
		return nil, time.Time{}, false, false
	}
	defer s.sending.Unlock()
	if !s.pipe.hasRoom() {
		return nil, time.Time{}, false, false
	}
	arrivals, again, done = sub.stream.Take()
	if len(arrivals) == 0 {
		return nil, again, done, true
	}
	if sub.traced {
		defer delivery(sub.values, arrivals).End()
	}
	s.pipe.hold()
	defer s.pipe.unhold()
	of := sub.of()
	for i := range arrivals {
		if i > 0 && !s.pipe.hasRoom() {
			s.pipe.release()
			if s.pipe.hold(); !s.pipe.hasRoom() {
				sub.rest = arrivals[i:]
				return arrivals[:i], again, done, false
			}
		}
		text := appendArrival(append(w.buffer[:0], make([]byte, headerRoom)...), of, &arrivals[i], w.jsonOf)
		w.keep(text)
		if s.pipe.writeText(text) != nil {
			return arrivals[:i], again, done, false
		}
	}
	return arrivals, again, done, true
}

// slow sends what Next returns, and waits until there is room for it.
func (sub *subscription) slow() (goesOn bool) {
	err := sub.send()
	if err == nil {
		return true
	}
	sub.close()
	sub.socket.ended(sub, err)
	sub.finish()
	return false
}

// send sends what Next returns, until that is nothing. The error is why the subscription ends.
func (sub *subscription) send() error {
	if sub.socket.pipe.await() != nil {
		return errCut
	}
	if err := sub.socket.arrived(sub, sub.rest, nil); err != nil {
		return err
	}
	sub.rest = nil
	ctx, done := sub.begin()
	defer done()
	for {
		arrivals, err := sub.stream.Next(ctx, 0)
		if err := sub.socket.arrived(sub, arrivals, err); err != nil || len(arrivals) == 0 {
			return err
		}
	}
}

// open opens the stream of a subscription, and answers.
func (s *socket) open(sub *subscription) (Stream, error) {
	var span tracing.Span
	sub.values, span = s.traced(sub.values, "socket subscribe", sub.query.From[0].Channel)
	defer span.End()
	ctx, done := sub.begin()
	defer done()
	stream, err := s.Channels.OpenCounted(ctx, sub.query)
	if err != nil {
		web.SetError(span, web.ProblemOf(err).Status, err)
		return nil, err
	}
	s.answer(wire.FrameOK, sub.ref)
	return stream, nil
}

// unopened ends a subscription whose stream could not be opened.
func (s *socket) unopened(sub *subscription, err error) {
	if !sub.stopped.Load() {
		ended, _ := s.delist(sub)
		s.fail(sub.ref, err)
		if ended != 0 { // since it has failed
			s.answer(wire.FrameOK, ended)
		}
		return
	}
	s.answer(wire.FrameOK, sub.ref) // and then it is ended
	s.ended(sub, err)
}

// ended ends a subscription.
func (s *socket) ended(sub *subscription, err error) {
	ended, refused := s.delist(sub)
	switch {
	case errors.Is(err, channel.ErrStreamDrained):
		go s.end(endDrain, websocket.StatusGoingAway)
	case refused != nil:
		s.failed(&wire.ErrorFrame{StreamSource: sub.of()}, refused)
	case ended != 0:
		s.answer(wire.FrameOK, ended)
	case errors.Is(err, channel.ErrStreamClosed):
		of := sub.of()
		s.send(func(b []byte) []byte { return wire.AppendClosed(b, &of) })
	case sub.stopped.Load(), errors.Is(err, errCut): // the socket ends
	default:
		s.failed(&wire.ErrorFrame{StreamSource: sub.of()}, err)
	}
}

// arrived sends what a call of Next has returned. The error is why the subscription ends.
func (s *socket) arrived(sub *subscription, arrivals []channel.Arrival, err error) error {
	if len(arrivals) > 0 {
		if full := sub.part.Grow(contentBytes(arrivals)); full != nil {
			s.pipe.cut(full)
			return errCut
		}
		span := delivery(sub.values, arrivals)
		good := s.deliver(sub.of(), arrivals)
		span.End()
		sub.part.Shrink(0)
		if !good || s.pipe.await() != nil { // nothing is read while much is unread
			return errCut
		}
	}
	return cmp.Or(err, sub.err())
}

// contentBytes returns the size of the contents of arrivals.
func contentBytes(arrivals []channel.Arrival) (n int64) {
	for i := range arrivals {
		if m := arrivals[i].Message; m != nil {
			n += int64(wire.ContentSize(m))
		}
	}
	return n
}

// deliver sends arrivals. It reports whether the connection is good.
func (s *socket) deliver(of wire.StreamSource, arrivals []channel.Arrival) bool {
	s.pipe.hold()
	defer s.pipe.release()
	for i := range arrivals {
		a := &arrivals[i]
		good := s.put(func(b []byte) []byte { return appendArrival(b, of, a, jsonOf) })
		if !good {
			return false
		}
		if a.Message != nil {
			s.counts.messages.Inc()
		}
	}
	return true
}

// appendArrival appends the frame of a message or a gap.
func appendArrival(b []byte, of wire.StreamSource, a *channel.Arrival, jsonOf func(*channel.Message) []byte) []byte {
	if a.Message != nil {
		head := wire.StreamHead{StreamSource: of, ReceiptHandle: a.Receipt}
		return wire.AppendMessageWith(b, &head, jsonOf(a.Message))
	}
	return wire.AppendGap(b, &wire.StreamGap{StreamSource: of, Reason: string(a.Gap.Reason), Count: a.Gap.Count},
		a.Receipt)
}

// unsubscribe ends a subscription, which answers.
func (s *socket) unsubscribe(f *wire.ClientFrame) {
	s.mu.Lock()
	sub := s.subscription(wire.StreamSource{Channel: f.Channel, Subscriber: f.Subscriber})
	if sub != nil && sub.done == nil {
		sub.ended, sub.done = f.Ref, make(chan struct{})
		sub.stop()
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.fail(f.Ref, errNotSubscribed)
}

// all returns the subscriptions.
func (s *socket) all() []*subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.subscriptions)
}

// recheck ends the subscriptions that the client's new credential doesn't allow.
func (s *socket) recheck() {
	guard, who := s.router.Guard(), s.who.Load()
	for _, sub := range s.all() {
		s.refuseReader(sub, guard.Check(who.ctx, who.principal, access.Subscribe, resourceOf(&sub.query.From[0])))
	}
}

// recheckRules ends a subscription if the rules no longer allow it.
func (s *socket) recheckRules(sub *subscription) {
	who := s.who.Load()
	s.refuseReader(sub, s.router.Guard().Recheck(who.principal, access.Subscribe, resourceOf(&sub.query.From[0])))
}

// refuseReader ends a subscription with the error of a check, if it isn't nil.
func (s *socket) refuseReader(sub *subscription, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.refused = err
	sub.stop()
}
