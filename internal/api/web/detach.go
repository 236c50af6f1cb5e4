package web

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// Detacher is a connection of HTTP/1.1 that a call can take from net/http.
type Detacher interface {
	// Detach returns the connection without what it needs only for requests.
	Detach() net.Conn
}

type detacherKey struct{}

// WithDetacher returns the context of the requests on a connection.
func WithDetacher(ctx context.Context, d Detacher) context.Context {
	return context.WithValue(ctx, detacherKey{}, d)
}

// Detacher returns the connection of the call, or nil if it can't be taken from net/http without what it needs for
// requests, as with TLS and HTTP/2.
func (c *Call) Detacher() Detacher {
	d, _ := c.request.Context().Value(detacherKey{}).(Detacher)
	if c.request.ProtoMajor != 1 || c.request.ProtoMinor < 1 {
		return nil
	}
	return d
}

// detachable is the part of a call that may go on without net/http.
type detachable struct {
	cancel     context.CancelCauseFunc // ends the call's context; nil: the call can't be detached
	unlink     func() bool             // keeps the end of the request from ending the call's context
	conn       net.Conn                // nil: it isn't detached
	requestLog *logged                 // the request, once it is detached
}

// separate returns the context of a call that may outlive its request, whose end ends it until Detach. It keeps nothing
// else of the request's context than its principal.
func (c *Call) separate() context.Context {
	parent := c.request.Context()
	ctx, cancel := context.WithCancelCause(context.Background()) //nolint:forbidigo // it outlives the request
	c.cancel = cancel
	c.unlink = context.AfterFunc(parent, func() { cancel(context.Cause(parent)) })
	if c.principal != nil {
		ctx = access.With(ctx, c.principal)
	}
	return ctx
}

// IsDetachable reports whether the connection can be taken from net/http: not with TLS, nor with another version than
// HTTP/1.1.
func (c *Call) IsDetachable() bool { return c.cancel != nil && c.Detacher() != nil }

// Detach takes the connection of the call from net/http, so that an answer that may last for hours doesn't keep
// net/http's goroutine and buffers. The handler has called SetHeaders and SetOutcome, writes the whole answer to the
// connection itself, and returns. The call goes on until EndDetached, and its span ends here. idle reports whether the
// client has sent nothing behind the request. The call must be IsDetachable.
func (c *Call) Detach() (conn net.Conn, idle bool, err error) {
	conn = c.Detacher().Detach()
	c.EndSpan()
	c.route.router.detached.add(c, conn)
	_, buffers, err := http.NewResponseController(c.writer.ResponseWriter).Hijack()
	if err != nil {
		c.route.router.detached.remove(c)
		return nil, false, writeError(err)
	}
	c.unlink()
	c.share.EndTurn()
	c.share.Release()
	l := c.logged()
	c.unsent.SetClient(c.client())
	c.conn, c.requestLog = conn, &l
	idle = buffers.Reader.Buffered() == 0
	c.request, c.response, c.params, c.unlink = nil, nil, nil, nil
	c.writer = answerWriter{}
	return conn, idle, nil
}

// Cancel ends the context of a detached call.
func (c *Call) Cancel(cause error) { c.cancel(cause) }

// EndDetached ends a detached call, and closes its connection.
func (c *Call) EndDetached() {
	c.endHold()
	c.cancel(context.Canceled)
	c.releaseConnection()
	_ = c.conn.Close() // it may be closed already
	c.count()
	c.route.router.detached.remove(c)
}

// detachedCalls are the calls that were detached and haven't ended.
type detachedCalls struct {
	mu    sync.Mutex
	open  map[*Call]net.Conn
	empty chan struct{} // closed when open becomes empty; nil: nobody waits
	cut   error         // why no call goes on; nil: they do
}

func (d *detachedCalls) add(c *Call, conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[c] = conn
	if d.cut != nil {
		c.Cancel(d.cut)
		_ = conn.Close() // so that its next write fails
	}
}

func (d *detachedCalls) remove(c *Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
	if len(d.open) == 0 && d.empty != nil {
		close(d.empty)
		d.empty = nil
	}
}

// none returns a channel that is closed when there is no call.
func (d *detachedCalls) none() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.empty == nil {
		d.empty = make(chan struct{})
	}
	none := d.empty
	if len(d.open) == 0 {
		close(d.empty)
		d.empty = nil
	}
	return none
}

// cutAll closes the connections of all calls, now and later.
func (d *detachedCalls) cutAll(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = cause
	for c, conn := range d.open {
		c.Cancel(cause)
		_ = conn.Close() // it may be closed already
	}
}

// WaitDetached waits until all calls that were detached have ended. No later ones are expected: http.Server.Shutdown has
// returned. When ctx ends it closes their connections. The error is that of ctx.
func (r *Router) WaitDetached(ctx context.Context) error {
	select {
	case <-r.detached.none():
		return nil
	case <-ctx.Done():
	}
	r.detached.cutAll(ctx.Err())
	<-r.detached.none()
	return ctx.Err()
}
