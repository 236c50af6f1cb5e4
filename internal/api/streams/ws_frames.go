package streams

import (
	"context"

	"github.com/coder/websocket"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// handle handles the frames that have arrived. It returns false if the connection is closed.
func (s *socket) handle() bool {
	for isEmpty := false; !isEmpty; {
		first, payload := s.pipe.frame()
		if first == 0 {
			if !s.handleNext() {
				return false
			}
			isEmpty = s.pipe.isEmpty()
			continue
		}
		if !s.isEnding() {
			s.handleUsual(first, payload)
		}
		isEmpty = s.pipe.handled()
	}
	return true
}

// handleUsual handles a frame that the library needn't read.
func (s *socket) handleUsual(first byte, payload []byte) {
	switch first {
	case wholeText:
		s.accept(&frame{bytes: payload})
	case wholePong:
		s.ponged(s.ctx, payload)
	default:
		if s.pinged(s.ctx, payload) {
			_, _ = s.pipe.Write(append(appendHeader(nil, wholePong, len(payload)), payload...)) // fails if the client has gone
		}
	}
}

// accept handles a frame. The next one is handled once this one's work is counted, or has ended.
func (s *socket) accept(f *frame) {
	defer s.recovered()
	defer f.forget()
	size := len(f.bytes)
	request, err := s.decode(f)
	if err != nil {
		s.refuse(f, size, err)
		return
	}
	if f.part != nil {
		f.part.EndTurn()
	}
	s.counts.frames[request.Type].Inc()
	if request.Type != wire.FrameAuthenticate || s.router.Guard() == nil { // otherwise it counts for the new client
		if err := s.count(size); err != nil {
			s.limited(request.Ref, err)
			return
		}
	}
	switch request.Type {
	case wire.FramePublish:
		s.publish(f, &request)
	case wire.FrameAuthenticate:
		s.authenticate(&request, size)
	case wire.FrameSubscribe:
		s.subscribe(&request)
	case wire.FrameUnsubscribe:
		s.unsubscribe(&request)
	case wire.FrameAck:
		s.ack(&request)
	default:
		s.answer(wire.FramePong, request.Ref)
	}
}

// decode decodes a large frame in its turn, which the caller ends.
func (s *socket) decode(f *frame) (wire.ClientFrame, error) {
	if f.part != nil {
		if err := f.part.AwaitTurn(s.ctx, len(f.bytes)); err != nil {
			return wire.ClientFrame{}, err
		}
	}
	return wire.DecodeFrame(f.bytes)
}

// refuse answers a frame that can't be decoded. One that isn't JSON ends the socket.
func (s *socket) refuse(f *frame, size int, err error) {
	isJSON, isUTF8 := wire.IsJSON(f.bytes)
	ref := wire.RefOf(f.bytes)
	f.forget() // and its turn, in which it was read again
	s.counts.invalid.Inc()
	if limited := s.count(size); limited != nil && isJSON {
		s.limited(ref, limited)
		return
	}
	s.fail(ref, err)
	if !isJSON || !isUTF8 {
		s.end(endInvalid, websocket.StatusInvalidFramePayloadData)
	}
}

// count counts a frame of a number of bytes as a request of the client.
func (s *socket) count(bytes int) error {
	who := s.who.Load()
	if now := s.router.Limits(); who.limits != now {
		s.become(who.principal, s.router.Renew(who.principal, s.address), now)
		who = s.who.Load()
	}
	if err := who.client.Request(who.ctx); err != nil {
		return err
	}
	if err := web.CountBody(who.ctx, int64(bytes)); err != nil {
		return err
	}
	s.refusals.Store(0)
	return nil
}

// limited answers a frame beyond the client's limit of requests.
func (s *socket) limited(ref uint64, err error) {
	s.fail(ref, err)
	if isLimited(err) {
		s.counts.refused.Inc()
		s.strike()
	}
}

// strike counts a frame that was refused, whatever it does. Too many of them end the socket.
func (s *socket) strike() {
	if s.refusals.Add(1) >= maxRefusals {
		s.end(endFlood, websocket.StatusPolicyViolation)
	}
}

// allow returns an error if the client may not do an action.
func (s *socket) allow(a access.Action, of access.Resource) error {
	guard, who := s.router.Guard(), s.who.Load()
	if guard == nil {
		return nil
	}
	if s.inQuery && !guard.QueryToken(of.Channel) {
		return web.ErrInQuery
	}
	if err := guard.Check(who.ctx, who.principal, a, of); err != nil {
		return err
	}
	if !s.known.Load() {
		s.markKnown()
		s.limitFrames(s.router.MaxBodyBytes())
	}
	return nil
}

// authenticate takes the client's credential, or a new one of the same principal.
func (s *socket) authenticate(f *wire.ClientFrame, size int) {
	guard, who := s.router.Guard(), s.who.Load()
	if guard == nil {
		s.answer(wire.FrameOK, f.Ref)
		return
	}
	p, err := s.router.Authenticate(s.ctx, f.Token, s.address)
	if err != nil {
		s.fail(f.Ref, err)
		s.strike()
		return
	}
	now := s.router.Limits()
	client, err := s.router.Count(s.ctx, p, s.address)
	if err == nil {
		err = web.CountBody(limits.With(s.ctx, client), int64(size))
	}
	if err != nil {
		s.limited(f.Ref, err)
		return
	}
	if who.principal.Kind != access.Nobody && who.principal.Name() != p.Name() {
		s.fail(f.Ref, errOther)
		s.strike()
		return
	}
	if who.principal.Kind == access.Nobody {
		if err := s.moveWaits(limits.With(s.ctx, client)); err != nil {
			s.limited(f.Ref, err)
			return
		}
	}
	s.refusals.Store(0)
	s.inQuery = false
	s.become(p, client, now)
	s.limitFrames(s.router.MaxBodyBytes())
	s.recheck()
	s.answer(wire.FrameOK, f.Ref)
}

// moveWaits makes the socket's waits those of the client of a context.
func (s *socket) moveWaits(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.waits)
	s.keepWaits(0)
	err := s.wait(ctx, n)
	if err != nil {
		s.keepWaits(0)
		_ = s.wait(s.who.Load().ctx, n) // others may have taken them meanwhile
	}
	return err
}

// wait counts a number of waits of the client of a context. The lock is held.
func (s *socket) wait(ctx context.Context, n int) error {
	for range n {
		done, err := s.Channels.Wait(ctx)
		if err != nil {
			return err
		}
		s.waits = append(s.waits, done)
	}
	return nil
}

// keepWaits ends all waits but the first n. The lock is held.
func (s *socket) keepWaits(n int) {
	for _, end := range s.waits[n:] {
		end()
	}
	s.waits = s.waits[:n]
}

// reserve takes the room that a frame of a number of bytes needs while it is under way, and counts a goroutine. It
// waits until there is room. It returns 0 if the socket ends. The caller calls release.
func (s *socket) reserve(bytes int) (cost int64) {
	limit := s.router.MaxBodyBytes()
	cost = min(limit, max(int64(bytes), limit/underWay))
	if s.work.Acquire(s.ctx, cost) != nil {
		return 0
	}
	if !s.begin() {
		s.work.Release(cost)
		return 0
	}
	s.pipe.budget.Earn(1) // it is served
	return cost
}

// release ends what reserve has begun.
func (s *socket) release(cost int64) {
	s.work.Release(cost)
	s.running.Done()
}

// traced begins the span of a frame, which is a trace of its own: a socket may last for hours.
func (s *socket) traced(ctx context.Context, name, channel string) (context.Context, tracing.Span) {
	ctx, span := s.router.Tracer().Serve(ctx, nil, name)
	if span.Recorded() {
		span.Set(tracing.Text(tracing.Channel, channel))
	}
	return ctx, span
}

// ack begins to acknowledge the receipt of a frame.
func (s *socket) ack(request *wire.ClientFrame) {
	of := access.Resource{Channel: request.Channel, Subscriber: request.Subscriber}
	if err := s.allow(access.Subscribe, of); err != nil {
		s.fail(request.Ref, err)
		return
	}
	cost := s.reserve(0)
	if cost == 0 {
		return
	}
	ctx, channel, subscriber, handle, ref := s.who.Load().ctx, request.Channel, request.Subscriber, request.ReceiptHandle,
		request.Ref
	go func() {
		defer s.release(cost)
		defer s.recovered()
		ctx, span := s.traced(ctx, "socket ack", channel)
		defer span.End()
		switch err := s.Channels.Ack(ctx, channel, subscriber, handle); {
		case err != nil:
			web.SetError(span, web.ProblemOf(err).Status, err)
			s.fail(ref, err)
		case ref != 0:
			s.answer(wire.FrameAcked, ref)
		}
	}()
}
