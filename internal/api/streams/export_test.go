package streams

import (
	"net"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/frames"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// Look makes all sockets do what they do when their clients have been silent for a while, as if since then no bytes had
// been read and none written.
func (ss *Sockets) Look(ago time.Duration) {
	ss.mu.Lock()
	all := make([]*socket, 0, len(ss.open))
	for s := range ss.open {
		all = append(all, s)
	}
	ss.mu.Unlock()
	for _, s := range all {
		s.pipe.wrote.Add(-int64(ago))
		s.pipe.read.Add(-int64(ago))
		if s.began.Load() != 0 {
			s.began.Add(-int64(ago))
		}
		s.look()
	}
}

// Reading returns how many sockets are reading a frame.
func (ss *Sockets) Reading() (n int) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for s := range ss.open {
		if s.began.Load() != 0 {
			n++
		}
	}
	return n
}

// Pipe is the connection of a socket.
type Pipe = pipe

// QueueBytes is how much may wait in a Pipe.
const QueueBytes = queueBytes

// NewPipe returns a Pipe. It calls slow if the client reads too slowly.
func NewPipe(conn net.Conn, part unsent.Part, slow func()) *Pipe {
	p := &pipe{Conn: conn, part: part, slow: slow, budget: frames.NewBudget(0, func(frames.Outcome) {})}
	p.room.L = &p.mu
	return p
}

// NewReadingPipe returns a Pipe whose client is read from a connection. It calls exceeded if the client sends too many
// frames.
func NewReadingPipe(conn net.Conn, exceeded func(frames.Outcome)) *Pipe {
	p := NewPipe(conn, unsent.Part{}, func() {})
	p.remaining, p.price, p.budget = lastBytes, func() int { return 1 }, frames.NewBudget(0, exceeded)
	return p
}

// LastBytes is how much is read of a client whose socket ends.
const LastBytes = lastBytes

// LimitReads is limitReads.
func (p *pipe) LimitReads() { p.limitReads() }

// Expire is expire.
func (p *pipe) Expire() { p.expire() }

// PriceOf returns the price of the frames in data, which is read in pieces.
func PriceOf(data string, piece int) (price int) {
	var m meter
	for part := range slices.Chunk([]byte(data), piece) {
		price += m.count(part)
	}
	return price
}

// Hold is hold.
func (p *pipe) Hold() { p.hold() }

// Release is release.
func (p *pipe) Release() { p.release() }

// Await is await.
func (p *pipe) Await() error { return p.await() }
