package streams

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/frames"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

const (
	// queueBytes is how much of what is written to a socket may wait for the client to read it. Beyond that writers wait.
	queueBytes = 64 << 10
	// queuePongs is how many answers to pings of the protocol may wait.
	queuePongs = 16
	// readBuffer and writeBuffer are the sizes of the library's buffers of a connection, in place of net/http's. A frame
	// that the library writes by itself has room in the latter, so that it is written at once.
	readBuffer  = 16
	writeBuffer = 128
	// closeTime is how long the end of a connection waits for its last bytes to be written.
	closeTime = time.Second
	// lastBytes is how much is read of a client whose socket ends, and lastTime is how long it may take to close its side.
	lastBytes = 64 << 10
	lastTime  = 2 * time.Second
)

// pipe is the connection of a socket. What is written is queued, and whoever finds the queue without a writer writes as
// much of it as the connection has room for: under load many frames go out together. A goroutine writes the rest, so
// that Write never waits for the client. Many goroutines may write whole frames, and one may read.
type pipe struct {
	net.Conn

	raw          syscall.RawConn // nil: it has none, as with TLS
	own          []byte          // in place of a buffer of input if it has none; the reader's
	input        input
	budget       *frames.Budget // for frames
	price        func() int     // of a frame
	largest      int            // bytes of a text that the library needn't read
	remaining    int            // bytes that are still read once it is readsLimited; guarded by input
	readsLimited atomic.Bool    // the socket ends

	held    atomic.Int32 // writers that will call flush
	closing atomic.Bool  // writes end within closeTime
	read    atomic.Int64 // when something was read last, in nanoseconds of the Unix epoch
	wrote   atomic.Int64 // when something was written last
	slow    func()       // called once if the client reads too slowly
	part    unsent.Part  // of the memory of all answers
	mu      sync.Mutex   // guards the rest
	room    sync.Cond    // signals that bytes were written, or won't be
	queue   []byte       // isn't written yet
	bytes   int          // in the queue, and being written
	pongs   int          // in the queue
	taken   bool         // part has memory
	busy    bool         // a goroutine writes
	closed  bool         // the close frame was the last one
	err     error        // nothing is written any more
}

// errCut is the error of writes to a client that leaves too much unread.
var errCut = errors.New("the client doesn't read in time")

// handshake is the writer of the answer that upgrades a connection. It is http.Hijacker, and keeps a refusal. The
// library's connection isn't kept: see socket.library.
type handshake struct {
	http.ResponseWriter

	pipe     *pipe
	detacher web.Detacher // nil: the connection has none
	refused  []byte       // the text of the refusal
}

// WriteHeader writes the status, unless it is one of a refusal.
func (h *handshake) WriteHeader(status int) {
	if status == http.StatusSwitchingProtocols {
		h.ResponseWriter.WriteHeader(status)
	}
}

// Write keeps the text of a refusal.
func (h *handshake) Write(p []byte) (int, error) {
	h.refused = append(h.refused, p...)
	return len(p), nil
}

// Hijack takes the connection. What it returns can only be closed, to no effect.
func (h *handshake) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	p := h.pipe
	if h.detacher != nil {
		conn = h.detacher.Detach()
	}
	if readsNow {
		p.raw, err = rawConn(conn)
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		_ = conn.Close()
		return nil, nil, err
	}
	p.Conn, p.room.L = conn, &p.mu
	early, err := buffers.Peek(buffers.Reader.Buffered())
	p.input.rest = append([]byte(nil), early...)
	p.remaining = lastBytes
	now := time.Now().UnixNano()
	p.read.Store(now)
	p.wrote.Store(now)
	return unused{}, buffered(unused{}), err
}

// unused is the connection of the library after the handshake.
type unused struct{ net.Conn }

// Close does nothing.
func (unused) Close() error { return nil }

// Read is never called.
func (unused) Read([]byte) (int, error) { return 0, net.ErrClosed }

// Write is never called.
func (unused) Write([]byte) (int, error) { return 0, net.ErrClosed }

// buffered returns the library's buffers of a connection.
func buffered(conn net.Conn) *bufio.ReadWriter {
	return bufio.NewReadWriter(bufio.NewReaderSize(conn, readBuffer), bufio.NewWriterSize(conn, writeBuffer))
}

// limitReads limits what is still read: the socket ends.
func (p *pipe) limitReads() { p.readsLimited.Store(true) }

// expire limits the time in which something is still read: the client has been told that the socket has ended.
func (p *pipe) expire() {
	p.limitReads()
	_ = p.SetReadDeadline(time.Now().Add(lastTime)) // fails only if the connection is closed
	time.AfterFunc(lastTime, p.stop)
}

// stop ends a read that waits for a budget, or for the end.
func (p *pipe) stop() { p.budget.End() }

// abort closes the connection at once: its reader ends.
func (p *pipe) abort() {
	p.stop()
	_ = p.Conn.Close() // it may be closed already
}

// queues are buffers of queued bytes, without those that are larger than queueBytes.
var queues = sync.Pool{New: func() any { return new(make([]byte, 0, unsent.Small)) }}

// Write queues bytes, and writes them unless the caller has called hold, or another goroutine writes.
func (p *pipe) Write(b []byte) (int, error) {
	if err := p.add(b); err != nil {
		return 0, err
	}
	if p.held.Load() == 0 {
		p.flush()
	}
	return len(b), nil
}

// headerRoom is the room for the header of a frame of the server.
const headerRoom = 10

// writeText writes a text as a frame. It begins after headerRoom bytes.
func (p *pipe) writeText(b []byte) error {
	var header [headerRoom]byte
	n := len(appendHeader(header[:0], wholeText, len(b)-headerRoom))
	copy(b[headerRoom-n:], header[:n])
	_, err := p.Write(b[headerRoom-n:])
	return err
}

func (p *pipe) add(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	if p.closed {
		return net.ErrClosed
	}
	p.closed = b[0] == wholeClose
	if p.queue == nil {
		p.queue = *queues.Get().(*[]byte)
	}
	p.queue = append(p.queue, b...)
	p.bytes += len(b)
	if p.bytes <= unsent.Small {
		return nil
	}
	p.taken = true
	if err := p.part.Grow(int64(p.bytes)); err != nil {
		p.fail(err)
		return err
	}
	return nil
}

// hold makes the following writes wait for flush, which the caller must call after release.
func (p *pipe) hold() { p.held.Add(1) }

// release ends hold, and writes.
func (p *pipe) release() {
	p.unhold()
	p.flush()
}

// unhold ends hold. The caller then calls flush.
func (p *pipe) unhold() { p.held.Add(-1) }

// await waits until there is room for another frame. Errors: that of the connection.
func (p *pipe) await() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.bytes >= queueBytes && p.err == nil {
		if p.drain(); p.busy {
			p.room.Wait()
		}
	}
	return p.err
}

// hasRoom reports whether await doesn't wait, and the connection is good.
func (p *pipe) hasRoom() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes < queueBytes && p.err == nil
}

// isIdle reports whether nothing waits to be written.
func (p *pipe) isIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes == 0
}

// pong reports whether there is room for the answer to a ping of the protocol, and takes it.
func (p *pipe) pong() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pongs == queuePongs {
		return false
	}
	p.pongs++
	return true
}

// flush writes what is queued, unless another goroutine does.
func (p *pipe) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drain()
}

// drain writes what is queued, as much as there is room for, and leaves the rest to a goroutine. It does nothing if p is
// busy. The lock is held.
func (p *pipe) drain() {
	for len(p.queue) > 0 && p.err == nil && !p.busy {
		b := p.takeQueue()
		p.mu.Unlock()
		n := p.try(b)
		p.mu.Lock()
		if n < len(b) {
			go p.drainSlowly(b, n)
			return
		}
		p.written(b, nil)
	}
}

// takeQueue returns what is queued, and makes p busy. The lock is held.
func (p *pipe) takeQueue() []byte {
	b := p.queue
	p.busy, p.queue, p.pongs = true, nil, 0
	return b
}

// written ends the writing of what takeQueue has returned. The lock is held.
func (p *pipe) written(b []byte, err error) {
	p.busy = false
	if p.bytes -= len(b); cap(b) <= queueBytes {
		b = b[:0]
		queues.Put(&b)
	}
	if p.taken {
		p.taken = p.bytes > unsent.Small
		p.part.Shrink(int64(p.bytes))
	}
	if err != nil {
		p.fail(err)
	}
	p.room.Broadcast()
}

// drainSlowly writes b without its first bytes, and then what is queued.
func (p *pipe) drainSlowly(b []byte, from int) {
	err := p.write(b[from:])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written(b, err)
	p.drain()
}

// writers are used for one write after the other.
var writers = sync.Pool{New: func() any {
	w := &nonBlockingWriter{}
	w.init()
	return w
}}

// try writes a part of b, or all of it.
func (p *pipe) try(b []byte) int {
	if p.raw == nil {
		return 0
	}
	p.wrote.Store(time.Now().UnixNano())
	w := writers.Get().(*nonBlockingWriter)
	defer writers.Put(w)
	return w.try(p.raw, b)
}

// write writes bytes. The client has the same time to read them as that of a stream of events.
func (p *pipe) write(b []byte) error {
	began, inTime := time.Now(), timeToRead(len(b))
	p.wrote.Store(began.UnixNano())
	if p.closing.Load() {
		inTime = closeTime
	}
	_ = p.SetWriteDeadline(began.Add(inTime)) // fails only if the connection is closed, as the write does
	if p.closing.Load() {                     // Close may have set its deadline in between
		_ = p.SetWriteDeadline(time.Now().Add(closeTime))
	}
	_, err := p.Conn.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && !p.closing.Load() {
		return errCut
	}
	if err == nil && !p.closing.Load() {
		_ = p.SetWriteDeadline(time.Time{}) // it would end a later try
	}
	return err
}

// cut ends the writing, because the client leaves too much unread.
func (p *pipe) cut(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail(err)
}

// fail ends the writing. The lock is held.
func (p *pipe) fail(err error) {
	if p.err != nil {
		return
	}
	p.err = err
	var full *fault.Error
	if errors.Is(err, errCut) || errors.As(err, &full) {
		p.slow()
	}
	p.room.Broadcast()
	p.abort()
}

// Close closes the connection, after what is queued is written or closeTime is over.
func (p *pipe) Close() error {
	p.closing.Store(true)
	_ = p.SetWriteDeadline(time.Now().Add(closeTime)) // fails only if the connection is closed
	p.flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.busy {
		p.room.Wait()
	}
	p.fail(net.ErrClosed)
	p.part.Close()
	return nil
}
