// Package places bounds how many connections listeners have open at a time.
//
// When all places of a [Limit] are taken, a new connection takes that of a connection that isn't in use: on which no
// request that the service has admitted is in progress or has just ended, since the client may be sending the next one.
// Connections on which no credential was accepted give way first, and of some of these the one that has been unused for
// longest. A client doesn't take the place of one that has fewer connections. So clients that keep connections open,
// open many, or ask what everybody may ask, shut nobody out. If no connection may give way, there is no place for the
// new one.
package places

import (
	"container/list"
	"context"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxSkips bounds how many connections are looked at to find one that isn't in use, maxCandidates how many are compared.
const maxSkips, maxCandidates = 1024, 64

// scarce is the part of the places that is kept free while it can be: one of so many.
const scarce = 16

// Rest is how long a connection stays in use after a request has ended.
const Rest = 250 * time.Millisecond

// gaveWay is the number of requests of a place that gave way. It stays negative whatever Begin and End add to it, so a
// request begins or the place gives way, without a lock.
const gaveWay = math.MinInt64 / 2

// Limit is a limit on the open connections of one or more listeners. All methods may be called by several goroutines.
type Limit struct {
	limit  int // 0: none
	client func(net.Addr) string
	full   func(gaveWay bool)

	mu     sync.Mutex
	open   atomic.Int64   // changed with mu held
	used   atomic.Int64   // open ones on which a request was admitted; changed with mu held
	shares map[string]int // open places by client, without those of ""
	// The open places: those on whose connections no credential was accepted give way before the others.
	unknown, known list.List // of *Place
}

var started = time.Now()

func now() int64 { return int64(time.Since(started)) }

// New returns a limit; 0 is none. client returns a name for the client at an address, or "" for many that count as
// without connections; nil: all are "". full, which may be nil, is called for each connection that finds all places
// taken, with whether another one gave way.
func New(limit int, client func(net.Addr) string, full func(gaveWay bool)) *Limit {
	if client == nil {
		client = func(net.Addr) string { return "" }
	}
	return &Limit{limit: limit, client: client, full: full, shares: make(map[string]int)}
}

// Take returns a place for a connection, or nil if all are in use. If another connection must give way, it is closed.
func (l *Limit) Take(conn net.Conn) *Place {
	p, evicted, isFull := l.take(conn)
	if isFull && l.full != nil {
		l.full(evicted != nil)
	}
	if evicted != nil {
		Cut(evicted.conn)
	}
	return p
}

func (l *Limit) take(conn net.Conn) (p, evicted *Place, isFull bool) {
	client := l.client(conn.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	if isFull = l.limit > 0 && l.Open() >= l.limit; isFull {
		if evicted = l.unused(&l.unknown, client); evicted == nil {
			evicted = l.unused(&l.known, client)
		}
		if evicted == nil {
			return nil, nil, true
		}
		l.release(evicted)
	}
	l.open.Add(1)
	if client != "" {
		l.shares[client]++
	}
	p = &Place{limit: l, conn: conn, client: client, list: &l.unknown}
	p.idleSince.Store(now())
	p.element = p.list.PushBack(p)
	return p, evicted, isFull
}

// unused returns a place that gives way to a client, or nil; no request begins on it any more. Of the first ones, up to
// maxCandidates, it is the one that has been unused for longest.
func (l *Limit) unused(places *list.List, client string) *Place {
	for {
		p := l.earliest(places, l.shares[client])
		if p == nil || p.requests.CompareAndSwap(0, gaveWay) {
			return p
		}
	}
}

// earliest returns the place that unused tries for a client that has share places. All that it looks at move to the end,
// so that the next call goes on behind them.
func (l *Limit) earliest(places *list.List, share int) (found *Place) {
	candidates, at := 0, now()
	for range min(places.Len(), maxSkips) {
		first := places.Front()
		places.MoveToBack(first)
		p := first.Value.(*Place)
		if p.requests.Load() != 0 || p.idleSince.Load() > at || l.shares[p.client] < share {
			continue
		}
		if found == nil || p.idleSince.Load() < found.idleSince.Load() {
			found = p
		}
		if candidates++; candidates == maxCandidates {
			break
		}
	}
	return found
}

// release frees a place, once. The lock is held.
func (l *Limit) release(p *Place) {
	if p.element != nil {
		p.list.Remove(p.element)
		p.element = nil
		l.open.Add(-1)
		if p.isUsed.Load() {
			l.used.Add(-1)
		}
		if l.shares[p.client]--; l.shares[p.client] <= 0 {
			delete(l.shares, p.client)
		}
	}
}

// Open returns how many places are taken.
func (l *Limit) Open() int { return int(l.open.Load()) }

// Place is the place of an open connection. All methods may be called by several goroutines, and on nil: they do
// nothing.
type Place struct {
	limit     *Limit
	conn      net.Conn
	client    string
	requests  atomic.Int64 // that were admitted and are in progress; negative: the place gave way
	idleSince atomic.Int64 // since when it isn't in use but for requests in progress: nanoseconds since started
	isKnown   atomic.Bool  // a credential was accepted
	isUsed    atomic.Bool  // a request was admitted; changed with limit.mu held

	// guarded by limit.mu
	list    *list.List
	element *list.Element // in list; nil: released
}

// Begin counts a request that the service has admitted, until End is called. It reports whether the connection still has
// its place. If so, it doesn't give way before End; otherwise it is being closed, and the request must not be handled.
// known is set if the client has a credential for it.
func (p *Place) Begin(known bool) (held bool) {
	if p == nil {
		return true
	}
	if p.requests.Add(1) < 0 {
		return false
	}
	if !p.isUsed.Load() {
		p.markUsed()
	}
	if known {
		p.MarkKnown()
	}
	return true
}

func (p *Place) markUsed() {
	p.limit.mu.Lock()
	defer p.limit.mu.Unlock()
	if p.element != nil && !p.isUsed.Swap(true) {
		p.limit.used.Add(1)
	}
}

// MarkKnown records that a credential was accepted on the connection.
func (p *Place) MarkKnown() {
	if p == nil || p.isKnown.Swap(true) {
		return
	}
	p.limit.mu.Lock()
	defer p.limit.mu.Unlock()
	if p.element != nil {
		p.list.Remove(p.element)
		p.list = &p.limit.known
		p.element = p.list.PushBack(p)
	}
}

// End ends a request that Begin has counted.
func (p *Place) End() {
	if p != nil {
		p.idleSince.Store(now() + int64(Rest))
		p.requests.Add(-1)
	}
}

// Wanted reports whether the connection should be closed after the answer to a request, since places are scarce: all but
// a sixteenth have had admitted requests or, if this one wasn't admitted and no credential was accepted on the
// connection, all are taken. So new connections rarely have to take a place whose client may just be sending.
func (p *Place) Wanted(admitted bool) bool {
	if p == nil || p.limit.limit == 0 {
		return false
	}
	limit := p.limit.limit
	return int(p.limit.used.Load()) > limit-limit/scarce ||
		!admitted && !p.isKnown.Load() && p.limit.Open() >= limit
}

// Release frees the place of a connection that is closed.
func (p *Place) Release() {
	if p == nil {
		return
	}
	p.limit.mu.Lock()
	defer p.limit.mu.Unlock()
	p.limit.release(p)
}

// Cut closes a connection at once: the end of TLS would wait for its client. Its owner finds it closed.
func Cut(conn net.Conn) {
	for {
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = outer.NetConn()
	}
	_ = conn.Close() // its owner closes it, too
}

type key struct{}

// With returns a context for the requests on a connection with a place.
func With(ctx context.Context, p *Place) context.Context { return context.WithValue(ctx, key{}, p) }

// From returns the place of the connection of a request, or nil.
func From(ctx context.Context) *Place {
	p, _ := ctx.Value(key{}).(*Place)
	return p
}
