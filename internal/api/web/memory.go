package web

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
)

// The rate at which a body of more than smallBuffer bytes must arrive: bodyRate bytes a second, after bodyHeadStart. A
// slower one would keep its share of the memory of all bodies from others.
const (
	bodyHeadStart = 10 * time.Second
	bodyRate      = 32 << 10
)

// The parts of the memory of all bodies: of one client, of one address without a credential on a service that requires
// them, and of all of these addresses together.
const (
	clientShares  = 4
	addressShares = 16
	unknownShares = 4
)

// bodyMemory is the memory of the bodies of all requests in progress. It may be used by several goroutines.
type bodyMemory struct {
	size        int64               // bytes
	closed      bool                // the service requires credentials
	used        atomic.Int64        // bytes; changed under mu
	turns       *semaphore.Weighted // of large bodies that are decoded
	waiting     atomic.Int64        // for a turn
	maxBody     int64               // the largest body
	readTimeout time.Duration

	mu      sync.Mutex
	clients map[string]int64 // bytes, without entries of 0
	unknown int64            // bytes of clients without a credential
}

// reserve takes n more bytes for a body of a client, which has some already. If it is the only one it may have any
// size.
func (m *bodyMemory) reserve(client string, unknown bool, had, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	share := m.size / clientShares
	if unknown {
		share = m.size / addressShares
	}
	used := m.clients[client]
	switch {
	case used+n > share && used > had:
		return errBodiesShare
	case m.used.Load()+n > m.size, unknown && m.unknown+n > m.size/unknownShares && m.unknown > had:
		return errBodiesFull
	}
	m.add(client, unknown, n)
	return nil
}

// add changes what a client uses. The lock is held.
func (m *bodyMemory) add(client string, unknown bool, n int64) {
	m.used.Add(n)
	if m.clients[client] += n; m.clients[client] == 0 {
		delete(m.clients, client)
	}
	if unknown {
		m.unknown += n
	}
}

// share is the BodyPart of a request. Except for EndTurn it is used by one goroutine.
type share struct {
	BodyPart

	call *Call
	sent int64 // bytes of the body
	slow bool  // the connection has a deadline for the body
}

// BodyPart is the memory of one body among that of all bodies. Except for EndTurn it is used by one goroutine.
type BodyPart struct {
	memory  *bodyMemory
	client  string // whose share it takes; set while it has memory
	unknown bool   // the client has no credential, and the service requires them
	taken   int64
	turn    atomic.Bool // it holds one of the memory's turns; ended by the goroutine that answers, too
}

// BodyPart returns the part of a body that doesn't come with a request: a frame of a WebSocket, or a message of gRPC.
func (r *Router) BodyPart() *BodyPart { return &BodyPart{memory: &r.bodies} }

// requestBytes is how many bytes of a body count as one request.
const requestBytes = 16 << 10

// CountBody counts a body of size bytes as further requests of a context's client, by the time that it may take to
// decode it. Errors: kind Limited.
func CountBody(ctx context.Context, size int64) error {
	if size <= requestBytes {
		return nil
	}
	return limits.From(ctx).Further(ctx, furtherRequests(size))
}

// furtherRequests returns as how many requests a body counts, besides the one that has it.
func furtherRequests(size int64) int { return int((size - 1) / requestBytes) }

// turnTimeout is how long a body waits for its turn at most.
const turnTimeout = 5 * time.Second

// Turns returns how many pieces of long work, such as decoding large bodies, are done at the same time. The other cores
// are for other requests.
func Turns() int64 { return int64(runtime.GOMAXPROCS(0)+1) / 2 }

// awaitTurn waits until a large body may be decoded. Small ones needn't wait.
func (s *share) awaitTurn(size int) error { return s.AwaitTurn(s.call.ctx, size) }

// AwaitTurn waits until a large body of size bytes may be decoded. Small ones needn't wait. Errors: kind Unavailable.
func (p *BodyPart) AwaitTurn(ctx context.Context, size int) error {
	if size <= largeBuffer || p.turn.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, turnTimeout, errDecoders)
	defer cancel()
	p.memory.waiting.Add(1)
	defer p.memory.waiting.Add(-1)
	if err := p.memory.turns.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	p.turn.Store(true)
	return nil
}

// Encode is for handlers whose answer may be large and is encoded by Value. It counts the answer, of about size bytes,
// as further requests, and waits until it may be encoded: large answers take turns with the bodies that are decoded.
// Errors: kind Unavailable.
func (c *Call) Encode(size int) error {
	if size > requestBytes {
		limits.From(c.ctx).Spent((size - 1) / requestBytes)
	}
	return c.share.awaitTurn(size)
}

// EndTurn lets the next large body be decoded. It may be called by several goroutines.
func (p *BodyPart) EndTurn() {
	if p.turn.Load() && p.turn.Swap(false) {
		p.memory.turns.Release(1)
	}
}

// grow takes memory for a body of size bytes, without waiting, and sets the time by which the client must have sent it.
// Small bodies need no memory: they are never refused.
func (s *share) grow(size int64) error {
	before := s.taken
	if err := s.Grow(s.call.Principal(), s.call.request.RemoteAddr, size); err != nil || s.taken == before {
		return err
	}
	s.expect(size)
	return nil
}

// expect sets the time by which the client must have sent a body of size bytes. Small bodies have one, too: a client that
// sends a part of one would keep a server from ending.
func (s *share) expect(size int64) {
	s.slow = true
	s.setDeadline(s.call.started.Add(BodyTime(size)))
}

// BodyTime returns how long a body of size bytes may take to arrive.
func BodyTime(size int64) time.Duration {
	return bodyHeadStart + time.Duration(size)*time.Second/bodyRate
}

// SmallBody is the size of bodies that need no memory, in bytes.
const SmallBody = smallBuffer

// Grow takes memory for a body of size bytes, if it has less, without waiting. It is taken of the share of a principal
// or, without a credential, of an address. Bodies of up to SmallBody bytes need none. Errors: kind Limited if the share
// is used up, and kind Unavailable if the memory of all clients is.
func (p *BodyPart) Grow(principal *access.Principal, address string, size int64) error {
	if size <= smallBuffer || size <= p.taken {
		return nil
	}
	if p.taken == 0 {
		p.client = Client(principal, address)
		p.unknown = p.memory.closed && (principal == nil || principal.Kind == access.Nobody)
	}
	if err := p.memory.reserve(p.client, p.unknown, p.taken, size-p.taken); err != nil {
		return err
	}
	p.taken = size
	return nil
}

// finish removes the deadline once the body has arrived: the rest of the request has the time that net/http gives it.
func (s *share) finish() {
	if s.slow {
		s.slow = false
		s.setDeadline(time.Now().Add(s.memory.readTimeout))
	}
}

func (s *share) setDeadline(at time.Time) {
	_ = http.NewResponseController(s.call.response).SetReadDeadline(at) // fails only without a connection
}

// Release returns the memory. p may be nil.
func (p *BodyPart) Release() {
	if p == nil || p.taken == 0 {
		return
	}
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	p.memory.add(p.client, p.unknown, -p.taken)
	p.taken = 0
}
