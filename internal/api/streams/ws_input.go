package streams

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// Opcodes of RFC 6455, section 5.2, with the bit of a message's last fragment.
const (
	wholeText  = 0x81
	wholeClose = 0x88
	wholePing  = 0x89
	wholePong  = 0x8a
)

// inputBytes is how much is read at a time. A connection has a buffer of that size only while it is read from.
const inputBytes = 4 << 10

var inputs = sync.Pool{New: func() any { return new([inputBytes]byte) }}

// input holds the bytes that a client has sent and that are not handled yet.
type input struct {
	mu     sync.Mutex        // of those who read the connection: the socket's reader, and the library
	rest   []byte            // a part of buffer, or of what came with the handshake
	buffer *[inputBytes]byte // of inputs; nil: rest is another one, or empty
	lent   bool              // a frame in buffer is being handled
	meter  meter             // of what was taken
}

// arrive waits until the client has sent something, and reports whether it has. The goroutine that waits here needs
// little stack.
func (p *pipe) arrive() bool {
	p.input.mu.Lock()
	defer p.input.mu.Unlock()
	if len(p.input.rest) > 0 {
		return true
	}
	if p.isReadToEnd() {
		return false
	}
	var n int
	if p.raw == nil {
		if p.own == nil {
			p.own = make([]byte, firstRead)
		}
		n, _ = p.Conn.Read(p.own) // the next read has the same error
		p.input.rest = p.own[:n]
	} else {
		_ = p.raw.Read(func(fd uintptr) bool { // likewise
			b := inputs.Get().(*[inputBytes]byte)
			var wait bool
			if n, wait = readNow(fd, b[:]); n <= 0 {
				inputs.Put(b)
				return !wait
			}
			p.input.buffer, p.input.rest = b, b[:n]
			return true
		})
	}
	if n <= 0 {
		return false
	}
	p.read.Store(time.Now().UnixNano())
	return true
}

// isReadToEnd waits for the end if nothing more is read because the socket ends.
func (p *pipe) isReadToEnd() bool {
	if !p.readsLimited.Load() || p.remaining > 0 {
		return false
	}
	<-p.budget.Ended()
	return true
}

// Read is for the library. It reads at most up to the end of a frame, so that the library has nothing of the next one.
// Frames beyond the client's budget are read later, and of a client whose socket ends little is read at all.
func (p *pipe) Read(b []byte) (n int, err error) {
	p.input.mu.Lock()
	defer p.input.mu.Unlock()
	if p.isReadToEnd() {
		return 0, net.ErrClosed
	}
	b = b[:min(len(b), p.input.meter.rest())]
	if len(p.input.rest) > 0 {
		n = copy(b, p.input.rest)
		p.input.drop(n)
	} else if n, err = p.Conn.Read(b); n > 0 {
		p.read.Store(time.Now().UnixNano())
	}
	p.account(n, p.input.meter.count(b[:n]))
	return n, err
}

// account counts bytes that were taken, and the price of the frames that begin in them.
func (p *pipe) account(bytes, price int) {
	if p.readsLimited.Load() {
		p.remaining -= bytes
	}
	if price > 0 && !p.budget.Spend(price*p.price()) {
		p.limitReads()
		p.remaining = 0
	}
}

// drop removes bytes.
func (in *input) drop(n int) {
	in.rest = in.rest[n:]
	in.release()
}

// release makes the buffer available to other connections, unless it is in use.
func (in *input) release() {
	if len(in.rest) == 0 && !in.lent && in.buffer != nil {
		inputs.Put(in.buffer)
		in.buffer, in.rest = nil, nil
	}
}

// smallHeader is the size of the header of a small frame, with its mask.
const smallHeader = 6

// frame takes the next frame, if all of it has arrived and it is one of the usual ones: a text, a ping or a pong that is
// a message of its own, and small. Its payload is valid until handled is called. Otherwise first is 0: the library must
// read it.
func (p *pipe) frame() (first byte, payload []byte) {
	p.input.mu.Lock()
	defer p.input.mu.Unlock()
	b := p.input.rest
	if p.readsLimited.Load() && p.remaining <= 0 { // nothing more is handled
		return 0, nil
	}
	if len(b) < smallHeader || !p.input.meter.isBetween() {
		return 0, nil
	}
	head, length := smallHeader, int(b[1]&^maskBit)
	if b[0] == wholeText && length == length16 {
		head, length = smallHeader+2, int(binary.BigEndian.Uint16(b[2:]))
	}
	isControl := (b[0] == wholePing || b[0] == wholePong) && length < length16
	isUsual := isControl || b[0] == wholeText && b[1]&^maskBit != length64
	if !isUsual || b[1]&maskBit == 0 || length > p.largest || len(b) < head+length {
		return 0, nil
	}
	first, payload = b[0], b[head:head+length:head+length]
	unmask(payload, b[head-4:head])
	p.input.lent = true
	p.input.drop(head + length)
	p.account(head+length, 1)
	return first, payload
}

// handled ends the use of a frame's payload. It reports whether nothing else has arrived.
func (p *pipe) handled() (isEmpty bool) {
	p.input.mu.Lock()
	defer p.input.mu.Unlock()
	p.input.lent = false
	isEmpty = len(p.input.rest) == 0
	p.input.release()
	return isEmpty
}

// isEmpty reports whether nothing has arrived that isn't taken.
func (p *pipe) isEmpty() bool {
	p.input.mu.Lock()
	defer p.input.mu.Unlock()
	return len(p.input.rest) == 0
}

// unmask removes a mask.
func unmask(b, key []byte) {
	word := uint64(binary.LittleEndian.Uint32(key))
	word |= word << 32
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^word)
	}
	for i := range b {
		b[i] ^= key[i&3]
	}
}

// appendHeader appends the header of a frame of the server.
func appendHeader(dst []byte, first byte, length int) []byte {
	switch {
	case length < length16:
		return append(dst, first, byte(length))
	case length < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, first, length16), uint16(length))
	default:
		return binary.BigEndian.AppendUint64(append(dst, first, length64), uint64(length))
	}
}
