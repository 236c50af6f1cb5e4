// Package frames limits the rate of HTTP/2 frames that a client sends on a connection, since net/http and grpc-go
// don't: docs/decisions/0011-guards-beside-the-libraries.md. A [Conn] reads and writes in between, after TLS. It copies
// only HEADERS frames of 129 bytes to 64 KiB that arrive in parts, and keeps the parts until the last one is there.
//
// Each frame that a client sends has a price. A connection may spend a burst, then the rate, and what the server's
// answers earn: so clients whose requests are answered are not limited, nor are those that send WINDOW_UPDATE frames to
// receive large answers. If a connection spends more, its frames are read later. If it always does so for the patience,
// it is closed. A connection isn't closed at once: a client may cancel all its requests when the server doesn't answer.
// A [Budget] is that limit, which connections of WebSockets have, too.
package frames

import (
	"encoding/binary"
	"net"
	"sync/atomic"
)

// Types and flags of frames: RFC 9113, section 6.
const (
	typeData         = 0x0
	typeHeaders      = 0x1
	typeReset        = 0x3
	typeGoAway       = 0x7
	typeContinuation = 0x9

	flagEndStream = 0x1
	flagPadded    = 0x8
	flagPriority  = 0x20
)

const (
	headerBytes = 9 // of a frame
	preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

	smallData   = 64      // bytes of a DATA frame that is free
	freeHeaders = 2 << 10 // bytes of a HEADERS frame, such as a long token, that cost as little as a short one
	pricedBytes = 256     // of other frames, and of HEADERS beyond freeHeaders: each cost as much as a frame
	resetPrice  = 2       // a request may have run in vain
	goAwayPrice = 100     // net/http logs each; clients send one or two
	contPrice   = 20      // clients send CONTINUATION only with more than 16 KiB of headers; its fields aren't counted

	freeFields   = 128 // of a HEADERS frame
	pricedFields = 8   // of those beyond it: these cost as much as a frame

	// maxBlock is the most bytes of a HEADERS frame whose fields are counted. A larger one costs only what its bytes
	// do: net/http decodes blocks of up to 66,176 bytes, and grpc-go reads frames of up to 16 KiB.
	maxBlock = 64 << 10

	openReset   = 1 + resetPrice // the price of a request that is reset
	answerEarns = openReset
	earnedBytes = 1024 // of a DATA frame of the server, that earn as much as the frame
)

// price returns the price of a frame.
func price(kind, flags byte, length int) int {
	switch {
	case kind == typeData && (length >= smallData || flags&flagEndStream != 0):
		return 0
	case kind == typeHeaders:
		return 1 + max(0, length-freeHeaders)/pricedBytes
	case kind == typeReset:
		return resetPrice
	case kind == typeGoAway:
		return goAwayPrice
	case kind == typeContinuation:
		return contPrice + length/pricedBytes
	}
	return 1 + length/pricedBytes
}

// priceOfFields returns the price of the fields of a HEADERS frame. Padding counts as fields.
func priceOfFields(flags byte, payload []byte) int {
	before := 0 // bytes before the block
	if flags&flagPadded != 0 {
		before = 1
	}
	if flags&flagPriority != 0 {
		before += 5
	}
	return max(0, countFields(payload[before:])-freeFields) / pricedFields
}

// earned returns what a frame of the server earns.
func earned(kind byte, length int) int {
	switch kind {
	case typeHeaders:
		return answerEarns
	case typeData:
		return 1 + length/earnedBytes
	}
	return 0
}

// Conn is a connection of a server. If its client speaks HTTP/2, the rate of the client's frames is limited. Read must
// be called by one goroutine at a time, and so must Write, as net/http and grpc-go do. The other methods may be called
// by several.
type Conn struct {
	net.Conn

	budget *Budget

	// of the goroutine that reads
	spoken   int // bytes of the preface
	received parser
	large    []byte // payload of the current frame so far, if its fields are counted and it comes in parts

	sent  parser      // of the goroutine that writes
	other atomic.Bool // the client doesn't speak HTTP/2
}

// New limits the rate of frames on a new connection, whose client may have a number of concurrent streams. Read calls
// exceeded at most once with each outcome.
func New(conn net.Conn, streams int, exceeded func(Outcome)) *Conn {
	return &Conn{Conn: conn, budget: NewBudget(2*streams, exceeded)} // to open all streams, or to reset all
}

// NetConn returns the connection in which c reads and writes.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Read reads what the client has sent, and waits if that is beyond the limit. It returns net.ErrClosed if the
// connection must be closed.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.budget.Spend(c.priceOf(p[:n])) {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write writes answers, or parts of them.
func (c *Conn) Write(p []byte) (int, error) {
	if !c.other.Load() {
		sum := 0
		c.sent.parse(p, func(kind, _ byte, length int) { sum += earned(kind, length) }, nil)
		c.budget.Earn(sum)
	}
	return c.Conn.Write(p)
}

// Close closes the connection. A Read that waits ends.
func (c *Conn) Close() error {
	c.budget.End()
	return c.Conn.Close()
}

// priceOf returns the price of the frames whose headers end in data, which was read, and of the blocks that do.
func (c *Conn) priceOf(data []byte) (sum int) {
	for ; c.spoken < len(preface) && len(data) > 0; data = data[1:] {
		if c.other.Load() || data[0] != preface[c.spoken] {
			c.other.Store(true)
			return 0
		}
		c.spoken++
	}
	c.received.parse(data, func(kind, flags byte, length int) { sum += price(kind, flags, length) },
		func(payload []byte) { sum += c.readLarge(payload) })
	return sum
}

// readLarge reads a part of the payload of a frame, and returns the price of the fields if it is the last part. Most
// frames have no such price: they aren't HEADERS, or have fewer bytes than fields that are free.
func (c *Conn) readLarge(payload []byte) int {
	r := &c.received
	if r.kind != typeHeaders || r.length <= freeFields || r.length > maxBlock {
		return 0
	}
	if len(payload) < r.length {
		if c.large = append(c.large, payload...); len(c.large) < r.length {
			return 0
		}
		payload, c.large = c.large, nil
	}
	return priceOfFields(r.flags, payload)
}

// parser finds the frames in one direction of a connection.
type parser struct {
	header    [headerBytes]byte
	headerLen int // bytes of the current header

	// of the current frame
	kind, flags byte
	length      int // of its payload
	remaining   int // bytes of it
}

// parse calls found with each frame whose header ends in data, and content with the parts of their payloads that are in
// data, unless content is nil.
func (p *parser) parse(data []byte, found func(kind, flags byte, length int), content func(payload []byte)) {
	for len(data) > 0 {
		if p.remaining > 0 {
			n := min(p.remaining, len(data))
			if content != nil {
				content(data[:n])
			}
			p.remaining -= n
			data = data[n:]
			continue
		}
		n := copy(p.header[p.headerLen:], data)
		p.headerLen += n
		data = data[n:]
		if p.headerLen == headerBytes {
			p.headerLen, p.kind, p.flags = 0, p.header[3], p.header[4]
			p.length = int(binary.BigEndian.Uint32(p.header[:4]) >> 8) // it has 3 bytes
			p.remaining = p.length
			found(p.kind, p.flags, p.length)
		}
	}
}
