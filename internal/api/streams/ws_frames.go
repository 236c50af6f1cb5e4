package streams

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/unsent"
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
		s.conn.SetReadLimit(s.router.MaxBodyBytes())
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
	s.conn.SetReadLimit(s.router.MaxBodyBytes())
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

// publish begins to publish the message of a frame.
func (s *socket) publish(f *frame, request *wire.ClientFrame) {
	if err := s.allow(access.Publish, access.Resource{Channel: request.Channel}); err != nil {
		s.fail(request.Ref, err)
		return
	}
	cost := s.reserve(len(f.bytes))
	if cost == 0 {
		return
	}
	p := &publish{socket: s, cost: cost, part: f.part, ref: request.Ref, channel: request.Channel}
	f.part = nil
	var ctx context.Context
	ctx, p.span = s.traced(s.who.Load().ctx, "socket publish", request.Channel)
	began := false
	defer func() {
		if !began { // it panicked
			p.release()
		}
	}()
	alone := s.Channels.BeginPublish(ctx, channel.PublishRequest{Channel: request.Channel,
		Drafts: []channel.Draft{{ID: request.Draft.ID, Content: request.Draft.Content}}}, p.done)
	if began = true; alone != nil {
		go p.alone(alone)
	}
}

// publish is a publish under way.
type publish struct {
	socket    *socket
	cost      int64         // of reserve
	part      *web.BodyPart // nil: it needs none
	span      tracing.Span
	ref       uint64
	channel   string
	published channel.Published
	err       error
	ended     bool
	releasing sync.Once
}

// alone publishes in a goroutine of its own.
func (p *publish) alone(publish func()) {
	defer func() {
		if !p.ended { // it panicked
			p.release()
		}
	}()
	defer p.socket.recovered()
	publish()
}

// done takes the result.
func (p *publish) done(published []channel.Published, err error) {
	if p.ended, p.err = true, err; err == nil {
		p.published = published[0]
	}
	p.socket.answers.add(p)
}

// release ends the publish.
func (p *publish) release() {
	p.releasing.Do(func() {
		p.span.End()
		releasePart(p.part)
		p.socket.release(p.cost)
	})
}

// append appends the answer of a publish that has succeeded.
func (p *publish) append(b []byte) []byte {
	return wire.AppendPublished(b, p.ref, &client.Published{Channel: p.channel, ID: p.published.ID,
		Clock: p.published.Clock, Duplicate: p.published.Duplicate, Differs: p.published.Differs})
}

// answers are the publishes of a socket that have ended and aren't answered yet. A goroutine answers all that end while
// it does, and writes their answers together.
type answers struct {
	mu      sync.Mutex
	waiting []*publish
	written bool // there is the goroutine
}

// add adds a publish.
func (a *answers) add(p *publish) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, p)
	if !a.written {
		a.written = true
		go p.socket.writeAnswers()
	}
}

// take takes all publishes. If there are none the goroutine ends.
func (a *answers) take() (all []*publish) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, a.waiting = a.waiting, nil
	a.written = len(all) > 0
	return all
}

// writeAnswers answers publishes until none waits.
func (s *socket) writeAnswers() {
	growStack()
	for all := s.answers.take(); len(all) > 0; all = s.answers.take() {
		s.writeEach(all)
	}
}

// writeEach answers publishes, and ends them.
func (s *socket) writeEach(all []*publish) {
	defer s.recovered()
	defer func() {
		for _, p := range all {
			p.release()
		}
	}()
	s.pipe.hold()
	defer s.pipe.release()
	for _, p := range all {
		if p.err == nil {
			s.put(p.append)
			continue
		}
		web.SetError(p.span, web.ProblemOf(p.err).Status, p.err)
		s.fail(p.ref, p.err)
	}
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

// subscription is a stream of a socket. It is the job of its task once the stream is open.
type subscription struct {
	task
	socket *socket
	query  channel.StreamQuery
	part   unsent.Part     // contents that have been read and aren't queued yet
	ref    uint64          // of its subscribe
	ctx    context.Context //nolint:containedctx // ends with the subscription
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended, and that is answered

	// Of the goroutine that runs the job.
	stream  Stream
	rest    []channel.Arrival // of Stream.Take, for which there was no room
	traced  bool              // ctx is sampled
	alarm   alarm
	unwatch func() bool // ends the watching of ctx

	// Guarded by the socket's lock.
	refused error  // why it is canceled, if its client may not read any more
	ended   uint64 // ref of the unsubscribe that ends it
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
	sub := &subscription{socket: s, ref: f.Ref, done: make(chan struct{}), query: channel.StreamQuery{Window: f.Window, Socket: true,
		Resume: cmp.Or(f.Resume, f.LastReceiptHandle), Ahead: f.Resume != "", From: []channel.Source{from}}}
	sub.task = task{scheduler: s.scheduler, job: sub}
	sub.query.Ready = sub.schedule
	sub.part = s.router.Answers().Part(s.client)
	sub.ctx, sub.cancel = context.WithCancel(unsent.With(who.ctx, &sub.part))
	if err := s.enlist(who.ctx, sub); err != nil {
		sub.cancel()
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
	before := s.subscriptions[of]
	ends := before != nil && before.ended != 0
	s.mu.Unlock()
	if ends {
		<-before.done
	}
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
	case s.subscriptions[sub.of()] != nil:
		return errTwice
	case n == maxSubscriptions:
		return errTooMany
	}
	if !s.ending && n >= perWait*len(s.waits) {
		if err := s.wait(ctx, 1); err != nil {
			return err
		}
	}
	s.subscriptions[sub.of()] = sub
	s.counts.subscriptions.Inc()
	return nil
}

// delist removes a subscription. It returns the ref of the unsubscribe that has ended it, and the reason if the client
// may not read any more.
func (s *socket) delist(sub *subscription) (ended uint64, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscriptions, sub.of())
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
	sub.stream, sub.traced = stream, tracing.Sampled(sub.ctx)
	sub.unwatch = context.AfterFunc(sub.ctx, sub.schedule)
	sub.enqueue()
}

// close closes the stream, if it is open.
func (sub *subscription) close() {
	if sub.stream != nil {
		sub.unwatch()
		sub.alarm.stop()
		sub.stream.Close()
		sub.stream = nil
	}
}

// finish is called once, when the subscription has ended.
func (sub *subscription) finish() {
	sub.close()
	sub.part.Close()
	sub.cancel()
	close(sub.done)
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
	if !good || !done || sub.ctx.Err() != nil {
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
		defer delivery(sub.ctx, arrivals).End()
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
	for {
		arrivals, err := sub.stream.Next(sub.ctx, 0)
		if err := sub.socket.arrived(sub, arrivals, err); err != nil || len(arrivals) == 0 {
			return err
		}
	}
}

// open opens the stream of a subscription, and answers.
func (s *socket) open(sub *subscription) (Stream, error) {
	var span tracing.Span
	sub.ctx, span = s.traced(sub.ctx, "socket subscribe", sub.query.From[0].Channel)
	defer span.End()
	stream, err := s.Channels.OpenCounted(sub.ctx, sub.query)
	if err != nil {
		web.SetError(span, web.ProblemOf(err).Status, err)
		return nil, err
	}
	s.answer(wire.FrameOK, sub.ref)
	return stream, nil
}

// unopened ends a subscription whose stream could not be opened.
func (s *socket) unopened(sub *subscription, err error) {
	if sub.ctx.Err() == nil {
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
	case sub.ctx.Err() != nil, errors.Is(err, errCut): // the socket ends
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
		span := delivery(sub.ctx, arrivals)
		good := s.deliver(sub.of(), arrivals)
		span.End()
		sub.part.Shrink(0)
		if !good || s.pipe.await() != nil { // nothing is read while much is unread
			return errCut
		}
	}
	return cmp.Or(err, sub.ctx.Err())
}

// contentBytes returns the size of the contents of arrivals.
func contentBytes(arrivals []channel.Arrival) (n int64) {
	for i := range arrivals {
		if m := arrivals[i].Message; m != nil {
			n += int64(len(m.Content))
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
		m := wire.StreamMessage{StreamSource: of, ReceiptHandle: a.Receipt}
		return wire.AppendMessageWith(b, &m, jsonOf(a.Message))
	}
	return wire.AppendGap(b, &wire.StreamGap{StreamSource: of, Reason: string(a.Gap.Reason), Count: a.Gap.Count},
		a.Receipt)
}

// unsubscribe ends a subscription, which answers.
func (s *socket) unsubscribe(f *wire.ClientFrame) {
	s.mu.Lock()
	sub := s.subscriptions[wire.StreamSource{Channel: f.Channel, Subscriber: f.Subscriber}]
	if sub != nil && sub.ended == 0 {
		sub.ended = f.Ref
		sub.cancel()
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
	return slices.Collect(maps.Values(s.subscriptions))
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
	sub.refused = err
	s.mu.Unlock()
	sub.cancel()
}
