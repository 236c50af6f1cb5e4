package access

import (
	"context"
	"math"
	"time"
)

// hold is a request that waits. It ends when its credential does, or when a change of the rules takes a right that the
// request was allowed by a rule. Guard.mu guards the last two fields.
type hold struct {
	principal *Principal
	end       context.CancelCauseFunc
	rights    []right // that rules gave it
	stopped   bool
}

// right is what a rule allows a principal.
type right struct {
	action   Action
	resource Resource
}

// holdKey is the context key of the *hold.
type holdKey struct{}

// Hold returns a context for a request that waits. It ends, with ErrExpired or ErrRevoked as its cause, when p's
// credential does. If Check allows p something with this context because of a rule, and a later change of the rules
// takes it back, the context ends with the error that Check then returns. stop must be called when the request has
// ended. For the administrator, and on an open service, the context is ctx.
func (g *Guard) Hold(ctx context.Context, p *Principal) (held context.Context, stop func()) {
	if g == nil || p == nil || p.Kind == Administrator {
		return ctx, func() {}
	}
	held, end := context.WithCancelCause(ctx)
	h := &hold{principal: p, end: end}
	held = context.WithValue(held, holdKey{}, h)
	if p.Kind == Nobody {
		return held, func() { g.release(h) }
	}
	if g.revoked != nil {
		g.mu.Lock()
		g.list(h)
		g.mu.Unlock()
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
		g.release(h)
	}
}

// list adds a hold to those that a revocation or a change of the rules can end. The lock is held.
func (g *Guard) list(h *hold) {
	if len(g.holds) == 0 && g.revoked != nil {
		g.stop = g.revoked.Notify(g.endRevoked)
	}
	g.holds[h] = struct{}{}
}

// release ends a hold.
func (g *Guard) release(h *hold) {
	h.end(context.Canceled)
	g.mu.Lock()
	defer g.mu.Unlock()
	h.stopped = true
	if _, ok := g.holds[h]; !ok {
		return
	}
	if delete(g.holds, h); len(g.holds) == 0 && g.revoked != nil {
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

// keep records what the rules have allowed with the hold of a context, if it has one: the hold ends when they no longer
// allow it.
func (g *Guard) keep(ctx context.Context, r *request, a Action) {
	h, _ := ctx.Value(holdKey{}).(*hold)
	if h == nil || h.principal != r.principal {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if h.stopped {
		return
	}
	h.rights = append(h.rights, right{action: a, resource: r.resource})
	g.list(h)
	if g.rules.Load() != r.rules { // they have changed since
		g.recheck(h)
	}
}

// recheck ends a hold whose principal has lost one of its rights. The lock is held.
func (g *Guard) recheck(h *hold) {
	for i := range h.rights {
		if err := g.Recheck(h.principal, h.rights[i].action, h.rights[i].resource); err != nil {
			h.end(err)
			return
		}
	}
}

// OnRules calls changed after each change of the rules. It must not block.
func (g *Guard) OnRules(changed func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed = append(g.changed, changed)
}

// SetRules replaces the rules. Requests that wait, and that only the rules before allowed, end: see Hold.
func (g *Guard) SetRules(rules Rules) {
	g.rules.Store(&rules)
	g.mu.Lock()
	changed := g.changed
	for h := range g.holds {
		g.recheck(h)
	}
	g.mu.Unlock()
	for _, f := range changed {
		f()
	}
}
