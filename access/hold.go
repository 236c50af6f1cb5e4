package access

import (
	"context"
	"math"
	"time"
)

// hold is a request that waits, and ends when its credential does.
type hold struct {
	principal *Principal
	end       context.CancelCauseFunc
}

// Hold returns a context for a request that waits. It ends, with ErrExpired or ErrRevoked as its cause, when p's
// credential does. stop must be called when the request has ended. For a principal whose credential never ends, and on
// an open service, the context is ctx.
func (g *Guard) Hold(ctx context.Context, p *Principal) (held context.Context, stop func()) {
	if g == nil || p == nil || p.Kind == Nobody || p.Kind == Administrator || p.Ends().IsZero() && g.revoked == nil {
		return ctx, func() {}
	}
	held, end := context.WithCancelCause(ctx)
	h := &hold{principal: p, end: end}
	if g.revoked != nil {
		g.list(h)
	}
	lasting, _ := p.Origin.(Lasting)
	if lasting != nil {
		lasting.Held(1)
	}
	if g.revoked != nil && g.revoked.Revoked(p) { // since it was authenticated
		end(ErrRevoked)
	}
	expiry := h.expire(held)
	return held, func() {
		end(context.Canceled) // first, so that the timer isn't set again after it was stopped
		if expiry != nil {
			expiry.Stop()
		}
		if lasting != nil {
			lasting.Held(-1)
		}
		if g.revoked != nil {
			g.unlist(h)
		}
	}
}

// list adds a hold to those that a revocation ends.
func (g *Guard) list(h *hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.holds) == 0 {
		g.stop = g.revoked.Notify(g.endRevoked)
	}
	g.holds[h] = struct{}{}
}

// unlist removes a hold, which may have been removed already.
func (g *Guard) unlist(h *hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.holds[h]; !ok {
		return
	}
	if delete(g.holds, h); len(g.holds) == 0 {
		g.stop()
	}
}

// expire starts a timer that ends the hold when its credential ends, and that is set again if the credential was
// renewed meanwhile. It returns nil if the credential never ends. The timer isn't set again once held has ended.
func (h *hold) expire(held context.Context) *time.Timer {
	ends := h.principal.Ends()
	if ends.IsZero() {
		return nil
	}
	var expiry *time.Timer
	expiry = time.AfterFunc(math.MaxInt64, func() {
		if hasEnded(h.principal) {
			h.end(ErrExpired)
			return
		}
		expiry.Reset(time.Until(h.principal.Ends()))
		if held.Err() != nil {
			expiry.Stop()
		}
	})
	expiry.Reset(time.Until(ends)) // now that expiry is set
	return expiry
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
