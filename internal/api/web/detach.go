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
	if !c.request.ProtoAtLeast(1, 1) || c.request.ProtoMajor > 1 {
		return nil
	}
	return d
}

// detachable is the part of a call that may go on without net/http.
type detachable struct {
	cancel context.CancelCauseFunc // ends the call's context; nil: the call can't be detached
	unlink func() bool             // keeps the end of the request from ending the call's context
	conn   net.Conn                // nil: it isn't detached
	gone   *logged                 // the request, once it is detached
	held   bool                    // stopHold must be called
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
func (c *Call) IsDetachable() bool {
	return c.cancel != nil && c.Detacher() != nil
}

// Detach takes the connection of the call from net/http, so that an answer that may last for hours doesn't keep
// net/http's goroutine and buffers. The handler has set the headers and SetOutcome, writes the whole answer to the
// connection itself, and returns. The call goes on until Finish, and its span ends here. idle reports whether the client
// has sent nothing behind the request. The call must be IsDetachable.
func (c *Call) Detach() (conn net.Conn, idle bool, err error) {
	d := c.Detacher()
	c.EndSpan()
	_, buffers, err := http.NewResponseController(c.writer.ResponseWriter).Hijack()
	if err != nil {
		return nil, false, writeError(err)
	}
	c.unlink()
	c.share.EndTurn()
	c.share.Release()
	l, client := c.logged(), c.client()
	c.conn, c.gone = d.Detach(), &l
	c.held, c.release = c.release != nil, nil
	c.unsent.Rename(client)
	idle = buffers.Reader.Buffered() == 0
	c.request, c.response, c.params, c.unlink = nil, nil, nil, nil
	c.writer = answerWriter{}
	c.route.router.detached.add(c)
	return c.conn, idle, nil
}

// Cancel ends the context of a detached call.
func (c *Call) Cancel(cause error) { c.cancel(cause) }

// Finish ends a detached call, and closes its connection.
func (c *Call) Finish() {
	if c.held {
		c.stopHold()
	}
	c.cancel(context.Canceled)
	c.leave()
	_ = c.conn.Close() // it may be closed already
	c.count()
	c.route.router.detached.remove(c)
}

// detachedCalls are the calls that were detached and haven't finished.
type detachedCalls struct {
	mu    sync.Mutex
	open  map[*Call]struct{}
	empty chan struct{} // closed when open becomes empty; nil: nobody waits
}

func (d *detachedCalls) add(c *Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[c] = struct{}{}
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

// cut closes the connections of all calls.
func (d *detachedCalls) cut(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.open {
		c.Cancel(cause)
		_ = c.conn.Close() // it may be closed already
	}
}

// WaitDetached waits until all calls that were detached have finished. When ctx ends it closes their connections. The
// error is that of ctx.
func (r *Router) WaitDetached(ctx context.Context) error {
	select {
	case <-r.detached.none():
		return nil
	case <-ctx.Done():
	}
	r.detached.cut(ctx.Err())
	<-r.detached.none()
	return ctx.Err()
}
