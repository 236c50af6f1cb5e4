package streams

import (
	"net"
	"time"

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
	p := &pipe{Conn: conn, part: part, slow: slow}
	p.room.L = &p.mu
	return p
}

// Hold is hold.
func (p *pipe) Hold() { p.hold() }

// Release is release.
func (p *pipe) Release() { p.release() }

// Await is await.
func (p *pipe) Await() error { return p.await() }
