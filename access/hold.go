package access

import (
	"context"
	"time"
)

// hold is a request that waits, and ends when its credential does.
type hold struct {
	principal *Principal
	end       context.CancelCauseFunc
}

// Hold returns a context for a request that waits. It ends, with ErrExpired or ErrRevoked as its cause, when p's credential
// does. stop releases what it holds, and must be called. For a principal whose credential never ends, and on an open service,
// the context is ctx.
func (g *Guard) Hold(ctx context.Context, p *Principal) (held context.Context, stop func()) {
	if g == nil || p == nil || p.Kind == Nobody || p.Kind == Administrator || p.Expires.IsZero() && g.revoked == nil {
		return ctx, func() {}
	}
	held, end := context.WithCancelCause(ctx)
	h := &hold{principal: p, end: end}
	var expiry *time.Timer
	if !p.Expires.IsZero() {
		expiry = time.AfterFunc(time.Until(p.Expires), func() { end(ErrExpired) })
	}
	if g.revoked != nil {
		g.mu.Lock()
		g.holds[h] = struct{}{}
		g.mu.Unlock()
		if g.revoked.Revoked(p) { // since it was authenticated
			end(ErrRevoked)
		}
	}
	return held, func() {
		if expiry != nil {
			expiry.Stop()
		}
		g.mu.Lock()
		delete(g.holds, h)
		g.mu.Unlock()
		end(context.Canceled)
	}
}

// endRevoked ends the holds whose credentials were revoked.
func (g *Guard) endRevoked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for h := range g.holds {
		if g.revoked.Revoked(h.principal) {
			h.end(ErrRevoked)
		}
	}
}
