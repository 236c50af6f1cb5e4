// Package unsent limits the memory of answers that clients have not read.
//
// A [Budget] is shared by all answers of a process, and each client has a share of it. A [Part] is the memory of one
// answer: from when its size is known, if possible before its data is read from Redis, until it is written. Nothing
// waits: what doesn't fit is refused. Answers of up to [Small] bytes are neither counted nor refused. The decision is
// docs/decisions/0011-guards-beside-the-libraries.md.
package unsent

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

const (
	// Small is the size up to which answers aren't counted, in bytes.
	Small = 4 << 10

	// HeadStart is the time after which an answer must be read at Rate. A slower client would keep its memory from others.
	HeadStart = 10 * time.Second
	// Rate is in bytes a second.
	Rate = 32 << 10

	shares  = 4 // of one client: a quarter of the budget
	retryIn = time.Second
)

var errFull = &fault.Error{
	Kind: fault.Unavailable, Slug: fault.SlugOverloaded, RetryAfter: retryIn,
	Detail: "too many large answers wait for clients to read them; trying again is safe",
}

// Budget limits how many bytes of answers wait to be written. All methods may be called by several goroutines. Of a nil
// Budget only Check, Part and Granted may be called: it has no limit.
type Budget struct {
	limit int64 // bytes of all clients
	share int64 // bytes of one client

	used          atomic.Int64 // bytes; changed under mu
	refused, slow atomic.Int64 // answers

	mu      sync.Mutex
	clients map[string]int64 // bytes, without entries of 0
}

// New returns a budget of a number of bytes for all clients. Each may use a quarter.
func New(limit int64) *Budget {
	return &Budget{limit: limit, share: limit / shares, clients: map[string]int64{}}
}

// Bytes returns how many bytes of answers are counted.
func (b *Budget) Bytes() int64 { return b.used.Load() }

// Refused returns how many answers were refused.
func (b *Budget) Refused() int64 { return b.refused.Load() }

// Slow returns how many answers ended because they were read too slowly.
func (b *Budget) Slow() int64 { return b.slow.Load() }

// CountSlow counts an answer that ended because it was read too slowly.
func (b *Budget) CountSlow() { b.slow.Add(1) }

// Check returns an error if a client has less than half of its share left, so that its next answer is refused before
// any work is done for it. client returns the client's name, and is called only if it is needed. The error is of kind
// Limited.
func (b *Budget) Check(client func() string) error {
	if b == nil || b.used.Load() <= b.share/2 {
		return nil
	}
	name := client()
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.checkShare(name, b.clients[name], b.share/2)
	if err != nil {
		b.refused.Add(1)
	}
	return err
}

// checkShare returns an error if n more bytes of a client exceed its share. others are the bytes of its other answers:
// without any it may have one that is larger than its share.
func (b *Budget) checkShare(client string, others, n int64) error {
	used := b.clients[client]
	if others == 0 || used+n <= b.share {
		return nil
	}
	return &fault.Error{
		Kind: fault.Limited, Slug: fault.SlugRateLimited, RetryAfter: retryIn,
		Detail: fmt.Sprintf("this client has not read %d bytes of its answers, it may leave %d unread", used, b.share),
	}
}

// checkAll returns an error if n more bytes exceed the budget.
func (b *Budget) checkAll(n int64) error {
	if b.used.Load()+n <= b.limit {
		return nil
	}
	return errFull
}

// add changes what a client uses.
func (b *Budget) add(client string, n int64) {
	b.used.Add(n)
	if b.clients[client] += n; b.clients[client] == 0 {
		delete(b.clients, client)
	}
}

// Part is the memory of one answer. All methods may be called by several goroutines, and on a nil Part, which has no
// limit.
type Part struct {
	budget *Budget
	client func() string // nil once name is set

	name    string // the client's
	taken   int64  // bytes
	granted bool   // it is never refused
	closed  bool
}

// Part returns the part of an answer to a client, whose name client returns. It has no memory yet.
func (b *Budget) Part(client func() string) Part { return Part{budget: b, client: client} }

// Granted is Part for an answer that is counted but never refused, since the call has changed something by then and its
// client would take it for refused. Such calls use Check before they change anything, if the answer may be large.
func (b *Budget) Granted(client func() string) Part {
	return Part{budget: b, client: client, granted: true}
}

// Grow takes memory for an answer of n bytes, if it has less. Errors: kind Limited if the client's share is exceeded,
// and kind Unavailable if the budget is.
func (p *Part) Grow(n int64) error {
	err := p.reserve(n, 0)
	if err != nil {
		p.budget.refused.Add(1)
	}
	return err
}

// Reserve is Grow for an upper bound of an answer's size, which the caller shrinks when it has read the answer. All
// that is reserved for a client is at most half of its share, or one answer, so that Check refuses none of its other
// requests. After an error the answer can be a smaller one: it isn't counted as refused.
func (p *Part) Reserve(n int64) error {
	if p == nil || p.budget == nil {
		return nil
	}
	return p.reserve(n, p.budget.share/2)
}

func (p *Part) reserve(n, remaining int64) error {
	if p == nil || p.budget == nil || n <= Small {
		return nil
	}
	b := p.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.limit) - p.taken
	if p.closed || n <= 0 {
		return nil
	}
	if p.client != nil {
		p.name, p.client = p.client(), nil
	}
	if !p.granted {
		if err := b.checkShare(p.name, b.clients[p.name]-p.taken, n+remaining); err != nil {
			return err
		}
		if err := b.checkAll(n); err != nil {
			return err
		}
	}
	b.add(p.name, n)
	p.taken += n
	return nil
}

// Shrink returns the memory beyond n bytes.
func (p *Part) Shrink(n int64) {
	if p == nil || p.budget == nil {
		return
	}
	p.budget.mu.Lock()
	defer p.budget.mu.Unlock()
	p.shrink(n)
}

func (p *Part) shrink(n int64) {
	if n < p.taken {
		p.budget.add(p.name, n-p.taken)
		p.taken = n
	}
}

// Taken returns how many bytes the part has.
func (p *Part) Taken() int64 {
	if p == nil || p.budget == nil {
		return 0
	}
	p.budget.mu.Lock()
	defer p.budget.mu.Unlock()
	return p.taken
}

// Close returns all memory, and takes no more.
func (p *Part) Close() {
	if p == nil || p.budget == nil {
		return
	}
	p.budget.mu.Lock()
	defer p.budget.mu.Unlock()
	p.closed = true
	p.shrink(0)
}

// SetClient sets the client's name, in place of the function that returns it.
func (p *Part) SetClient(name string) {
	if p == nil || p.budget == nil {
		return
	}
	p.budget.mu.Lock()
	defer p.budget.mu.Unlock()
	if p.client != nil {
		p.name, p.client = name, nil
	}
}

// Time returns how long a client may take to read n bytes.
func Time(n int64) time.Duration { return HeadStart + time.Duration(n)*time.Second/Rate }

type partKey struct{}

// With returns a context that carries the part of the answer to a request.
func With(ctx context.Context, p *Part) context.Context { return context.WithValue(ctx, partKey{}, p) }

// From returns the part of a context. Without one it is nil.
func From(ctx context.Context) *Part {
	p, _ := ctx.Value(partKey{}).(*Part)
	return p
}
