package streams

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/semaphore"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/frames"
	"github.com/tidemark-dev/tidemark/internal/places"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Close codes that RFC 6455 leaves to applications: the HTTP status, and 4000.
const statusCredential websocket.StatusCode = 4401

// More reasons of the frame "end".
const (
	endFlood    = "flood"    // too many frames beyond the client's limit of requests
	endInvalid  = "invalid"  // a frame isn't JSON in UTF-8, or isn't text, or takes too long to arrive
	endOverload = "overload" // the server, or the client's share of it, has no memory for a large frame
	endInternal = "internal" // a defect of the service
)

// socket is one WebSocket. Its reader handles frames one after the other. Publishes are answered by a goroutine for all
// that have ended. Each acknowledgement has a goroutine, and a subscription while it opens or is slow.
type socket struct {
	*Sockets
	id      string // of the request
	address string
	opened  time.Time
	age     time.Duration   // that it may have
	ctx     context.Context //nolint:containedctx // of all work of the socket; ends with it
	cancel  context.CancelCauseFunc
	library library
	pipe    pipe
	place   *places.Place       // of the connection, which the client uses once it is known
	work    *semaphore.Weighted // bytes of the frames under way, of which each counts as a 64th at least
	began   atomic.Int64        // when the frame that is being read began, in nanoseconds of the Unix epoch; 0: none is
	size    atomic.Int64        // of that frame so far
	asked   atomic.Bool         // a ping of the protocol has had no answer
	known   atomic.Bool         // the client has a credential, or has done what needs none

	countedAs string // the address for which it counts until then, or empty; guarded by the lock of Sockets

	sending  sync.Mutex               // held by put, so that little more than a frame is beyond queueBytes
	who      atomic.Pointer[identity] // written by the reader
	inQuery  bool                     // its credential came in the query; the reader's
	refusals atomic.Int32             // in a row, because of the limit of requests

	answers answers

	mu            sync.Mutex
	ending        bool           // no more work begins
	running       sync.WaitGroup // goroutines; Add under mu and before ending
	closing       sync.WaitGroup // the call of end
	subscriptions []*subscription
	waits         []func()    // end one of the client's waits each; the socket is one itself
	tick          *time.Timer // calls look
}

// identity is the client of a socket.
type identity struct {
	principal *access.Principal // nil: the service is open
	client    limits.Client
	limits    *limits.Limits  // read before client was made of them; nil: not known
	ctx       context.Context //nolint:containedctx // the socket's, with the principal and the client
	release   func()
}

// become sets the client, which was made of limits that are as new as of, or newer. The socket ends when the client's
// credential does.
func (s *socket) become(p *access.Principal, client limits.Client, of *limits.Limits) {
	ctx := s.ctx
	if p != nil {
		ctx = access.With(ctx, p)
	}
	now := &identity{principal: p, client: client, limits: of, ctx: limits.With(ctx, client), release: func() {}}
	if p != nil {
		held, stop := s.router.Guard().Hold(s.ctx, p)
		forget := context.AfterFunc(held, func() {
			var e *fault.Error
			if errors.As(context.Cause(held), &e) && e.Kind == fault.Unauthenticated {
				s.end(endCredential, statusCredential)
			}
		})
		now.release = func() {
			forget()
			stop()
		}
	}
	if p == nil || p.Kind != access.Nobody {
		s.markKnown()
		if p != nil {
			s.place.MarkKnown()
		}
	}
	if before := s.who.Swap(now); before != nil {
		before.release()
	}
}

// markKnown records that the client has a credential, or has done what needs none. From then on the connection is in
// use until the socket ends.
func (s *socket) markKnown() {
	if !s.known.CompareAndSwap(false, true) {
		return
	}
	s.removeUnauthenticated(s)
	if !s.place.Begin(false) {
		s.cancel(web.ErrConnections) // the connection is being closed, so that the next read ends the socket
	}
}

// price returns the price of a frame.
func (s *socket) price() int {
	if s.known.Load() {
		return 1
	}
	return unauthenticatedPrice
}

// exceeded ends a socket whose client always sends more frames than its budget allows.
func (s *socket) exceeded(o frames.Outcome) {
	if o == frames.Closed {
		s.counts.refused.Inc()
		go s.end(endFlood, websocket.StatusPolicyViolation) // the library can't close while it reads
	}
}

// client returns whose share of the memory of answers the socket takes.
func (s *socket) client() string { return web.Client(s.who.Load().principal, s.address) }

// serve waits until the client has sent something, and handles it. Another goroutine waits for more: the work for
// frames makes a stack grow, and it is a new one that waits for a client that sends nothing.
func (s *socket) serve() {
	if s.pipe.arrive(); growStack() && s.handle() {
		go s.serve()
		return
	}
	s.finish()
}

// growStack makes the stack of a new goroutine grow at once, while there is little on it to copy. It returns true.
//
//go:noinline
func growStack() bool {
	var room [6 << 10]byte
	return room[len(stackRoom)] == 0
}

// stackRoom is empty, which the compiler doesn't know.
var stackRoom []byte

// finish ends the socket after its last frame.
func (s *socket) finish() {
	s.leave()
	s.closeNow()
	s.running.Wait()
	s.closing.Wait()
	s.who.Load().release()
	if s.known.Load() {
		s.place.End()
	}
	s.remove(s)
	s.Logger.Debug("socket closed", "requestId", s.id, "client", s.address, "elapsed", time.Since(s.opened))
}

// leave ends all work.
func (s *socket) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	s.cancel(context.Canceled)
	if s.tick != nil {
		s.tick.Stop()
	}
	for _, sub := range s.subscriptions {
		sub.stop()
	}
	s.keepWaits(0)
}

// start sets the timer.
func (s *socket) start() {
	maxFrame := s.router.MaxBodyBytes()
	if !s.known.Load() {
		maxFrame = firstFrame
	}
	s.limitFrames(maxFrame)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick = time.AfterFunc(min(PingEvery, s.untilEnd()), func() {
		if !s.begin() {
			return
		}
		defer s.running.Done()
		s.tick.Reset(s.look())
	})
}

// untilEnd returns how long the socket may go on, as far as is known.
func (s *socket) untilEnd() time.Duration {
	age := s.age
	if !s.known.Load() {
		age = min(age, s.Patience)
	}
	return time.Until(s.opened.Add(age))
}

// begin counts a goroutine of the socket, which calls s.running.Done. It returns false if no more may begin.
func (s *socket) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.running.Add(1)
	return true
}

// recovered is deferred: a panic ends the socket and not the service.
func (s *socket) recovered() {
	if p := recover(); p != nil {
		s.router.LogPanic(s.id, p)
		go s.end(endInternal, websocket.StatusInternalError)
	}
}

// look ends the socket when that is due. It sends a ping if the client has been sent nothing for a while, and closes the
// connection if the client is dead, or takes too long to send a frame. It returns after which time it must be called
// again.
func (s *socket) look() time.Duration {
	now, next := time.Now(), min(PingEvery, s.untilEnd())
	if next <= 0 {
		if s.known.Load() || now.Sub(s.opened) >= s.age {
			go s.end(endAge, websocket.StatusGoingAway)
		} else {
			go s.end(endCredential, statusCredential)
		}
		return PingEvery
	}
	if at := s.began.Load(); at != 0 {
		remaining := web.BodyTime(s.size.Load()) - now.Sub(time.Unix(0, at))
		if remaining < 0 {
			go s.end(endInvalid, websocket.StatusPolicyViolation)
			return PingEvery
		}
		next = min(next, remaining+time.Second)
	}
	silent := now.Sub(time.Unix(0, s.pipe.read.Load()))
	switch {
	case silent > deadAfter:
		s.pipe.abort()
		return PingEvery
	case silent > silentAfter:
		s.asked.Store(true)
		go s.ping()
		return next
	}
	quiet := time.Since(time.Unix(0, s.pipe.wrote.Load()))
	if quiet < PingEvery {
		return min(next, max(time.Second, PingEvery-quiet))
	}
	if s.pipe.isIdle() {
		s.answer(wire.FramePing, 0)
	}
	return next
}

// ping sends a ping of the protocol. Any byte of the client is an answer.
func (s *socket) ping() {
	_, _ = s.pipe.Write([]byte{wholePing, 1, '1'}) // fails if the client has gone
}

// pinged reports whether a ping of the protocol is answered. Pings count as requests.
func (s *socket) pinged(context.Context, []byte) bool { return s.counted() && s.pipe.pong() }

// ponged counts a pong of the protocol as a request, unless it may be the answer to a ping.
func (s *socket) ponged(context.Context, []byte) {
	if !s.asked.CompareAndSwap(true, false) {
		s.counted()
	}
}

// counted counts a frame of the protocol as a request. It reports whether it is within the client's limit.
func (s *socket) counted() bool {
	err := s.who.Load().client.Request(s.ctx)
	if isLimited(err) {
		s.counts.refused.Inc()
		if s.refusals.Add(1) >= maxRefusals {
			go s.end(endFlood, websocket.StatusPolicyViolation) // the library can't close while it reads
		}
	}
	return err == nil
}

// end ends the socket: no more frames are handled, those under way are answered, and the last frame has the reason.
func (s *socket) end(reason string, code websocket.StatusCode) {
	s.mu.Lock()
	if s.ending {
		s.mu.Unlock()
		return
	}
	s.ending = true
	s.pipe.limitReads()
	s.closing.Add(1)
	for _, sub := range s.subscriptions {
		sub.stop()
	}
	s.mu.Unlock()
	defer s.closing.Done()
	s.running.Wait()
	s.send(func(b []byte) []byte { return wire.AppendEnd(b, reason) })
	s.close(code, reason)
}

// close sends the close frame, and gives the client little time to answer it.
func (s *socket) close(code websocket.StatusCode, reason string) {
	s.pipe.expire()
	_ = s.useLibrary().Close(code, reason) // fails if the client has gone
}

// firstRead is the size of the buffer with which the reading of a frame begins. It isn't counted.
const firstRead = 1 << 10

// The buffers of frames. Those to read into have firstRead bytes, so that the begin of a frame holds no large buffer.
var (
	readFrames  = sync.Pool{New: func() any { return &frame{bytes: make([]byte, 0, firstRead)} }}
	writeFrames = sync.Pool{New: func() any { return &frame{bytes: make([]byte, 0, firstRead)} }}
)

// frame is a frame from the client.
type frame struct {
	bytes []byte
	part  *web.BodyPart // nil: it needs none
}

// release makes the buffer available to other frames. It must not be in use any more.
func (f *frame) release() {
	f.forget()
	f.bytes = f.bytes[:0]
	switch n := cap(f.bytes); {
	case n == firstRead:
		readFrames.Put(f)
	case n <= queueBytes:
		writeFrames.Put(f)
	}
}

// forget releases the memory that is counted for the frame.
func (f *frame) forget() {
	releasePart(f.part)
	f.part = nil
}

// releasePart releases a part of the memory of bodies; it may be nil.
func releasePart(part *web.BodyPart) {
	if part != nil {
		part.EndTurn()
		part.Release()
	}
}

// handleNext handles the next frame, which the library reads. It returns false if the connection is closed.
func (s *socket) handleNext() bool {
	// The library closes the connection when a context ends.
	kind, reader, err := s.useLibrary().Reader(context.WithoutCancel(s.ctx))
	if err != nil {
		s.refuseProtocol(err)
		return false
	}
	f := readFrames.Get().(*frame)
	defer f.release()
	if err := s.read(reader, f); err != nil {
		f.forget()
		return s.unread(err)
	}
	if s.wants(kind) {
		s.accept(f)
	}
	return true
}

// isEnding reports whether the rest of what the client sends isn't handled.
func (s *socket) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// wants reports whether a message of a kind is handled.
func (s *socket) wants(kind websocket.MessageType) bool {
	ending := s.isEnding()
	if !ending && kind != websocket.MessageText {
		s.counts.invalid.Inc()
		s.end(endInvalid, websocket.StatusUnsupportedData)
		return false
	}
	return !ending
}

// read reads a frame.
func (s *socket) read(r io.Reader, f *frame) error {
	s.size.Store(0)
	s.began.Store(time.Now().UnixNano())
	defer s.began.Store(0)
	for {
		n, err := r.Read(f.bytes[len(f.bytes):cap(f.bytes)])
		f.bytes = f.bytes[:len(f.bytes)+n]
		s.size.Store(int64(len(f.bytes)))
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(f.bytes) < cap(f.bytes):
			continue
		}
		size := min(2*cap(f.bytes), int(s.router.MaxBodyBytes())+1)
		if f.part == nil {
			f.part = s.router.BodyPart()
		}
		if err := f.part.Grow(s.who.Load().principal, s.address, int64(size)); err != nil {
			return err
		}
		f.bytes = append(make([]byte, 0, size), f.bytes...)
	}
}

// unread handles the error of a frame that could not be read. It returns whether the socket goes on.
func (s *socket) unread(err error) bool {
	var e *fault.Error
	if errors.As(err, &e) {
		s.fail(0, err)
		s.end(endOverload, websocket.StatusTryAgainLater)
		return true
	}
	s.refuseProtocol(err)
	return false
}

// refuseProtocol sends the close frame for errors for which the library doesn't.
func (s *socket) refuseProtocol(err error) {
	if websocket.CloseStatus(err) == -1 && s.ctx.Err() == nil {
		s.close(websocket.StatusProtocolError, "the frame isn't valid")
	}
}

// send sends a frame that appendJSON appends. It waits while the client leaves much unread.
func (s *socket) send(appendJSON func([]byte) []byte) {
	s.pipe.hold()
	defer s.pipe.release()
	s.put(appendJSON)
}

// put is send while the pipe is held. It reports whether the connection is good.
func (s *socket) put(appendJSON func([]byte) []byte) bool {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.pipe.await() != nil {
		return false
	}
	f := writeFrames.Get().(*frame)
	defer f.release()
	f.bytes = appendJSON(f.bytes[:headerRoom])
	return s.pipe.writeText(f.bytes) == nil
}

// answer sends the answer to a frame.
func (s *socket) answer(kind string, ref uint64) {
	s.send(func(b []byte) []byte { return wire.AppendAnswer(b, kind, ref) })
}

// fail sends the error of a frame.
func (s *socket) fail(ref uint64, err error) { s.failed(&wire.ErrorFrame{Ref: ref}, err) }

func (s *socket) failed(f *wire.ErrorFrame, err error) {
	f.Type, f.Problem = wire.FrameError, ofFrame(s.router.Problem(s.ctx, s.id, err))
	s.send(f.AppendJSON)
}
