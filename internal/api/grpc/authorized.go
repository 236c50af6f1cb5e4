package grpc

import (
	"context"
	"errors"

	"google.golang.org/grpc/metadata"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

const metadataAuthorization = "authorization"

// guarded reports whether a call requires a known client.
func (m *method) guarded() bool {
	return m.path != "" && !m.need.open && (m.router.Guard() != nil || !m.http && m.router.Limited())
}

// authorize authenticates the client and counts the call before its message is read, and checks whether the client may
// call the method.
func (c *call) authorize() (err error) {
	m := c.method
	if err := c.checkHost(); err != nil {
		return err
	}
	if !m.guarded() {
		return nil
	}
	if c.ctx, c.client, err = m.admit(c.ctx); err != nil {
		return err
	}
	return m.router.Guard().Check(c.ctx, c.client, m.need.action, access.Resource{})
}

// checkHost checks the name under which the client calls the listener of gRPC. On the HTTP port the router has done so.
func (c *call) checkHost() error {
	m := c.method
	if m.http || m.path == "" || m.need.open {
		return nil
	}
	host := ""
	if authority := metadata.ValueFromIncomingContext(c.ctx, ":authority"); len(authority) > 0 {
		host = authority[0]
	}
	return m.router.CheckHost(host, m.onLoopback.Load())
}

// admit authenticates the client, counts the call, and returns its context with the client's principal. On the HTTP
// port the router has done so.
func (m *method) admit(ctx context.Context) (context.Context, *access.Principal, error) {
	if m.http {
		return ctx, access.From(ctx), nil
	}
	address := clientAddress(ctx, m.router)
	credential, err := web.BearerToken(metadata.ValueFromIncomingContext(ctx, metadataAuthorization))
	if err != nil && m.router.Guard() != nil {
		return ctx, nil, err
	}
	p, err := m.router.Authenticate(ctx, credential, address)
	if err != nil {
		return ctx, nil, err
	}
	ctx, err = m.router.Limit(access.With(ctx, p), p, address)
	return ctx, p, err
}

// whileValid calls the handler of a stream with a context that ends with the client's credential.
func (c *call) whileValid(handler func() error) error {
	if !c.method.guarded() {
		return handler()
	}
	ctx := c.ctx
	held, release := c.method.router.Guard().Hold(ctx, c.client)
	defer release()
	defer func() { c.ctx = ctx }()
	c.ctx = held
	err := handler()
	if ended := credentialEnd(held); err != nil && ended != nil {
		return ended
	}
	return err
}

// credentialEnd returns the reason why the client's credential is no longer valid, or nil.
func credentialEnd(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, access.ErrExpired) || errors.Is(cause, access.ErrRevoked) {
		return cause
	}
	return nil
}

// authorizeMessage checks whether the client's credential is still valid, since a message may arrive late, and whether
// the client has permission for the first message's resource.
func (c *call) authorizeMessage(message any, first bool) error {
	if !c.method.guarded() {
		return nil
	}
	guard, need := c.method.router.Guard(), c.method.need
	if err := guard.Valid(c.client); err != nil || !first || need.of == nil {
		return err
	}
	return guard.Check(c.ctx, c.client, need.action, need.of(c.ctx, message))
}
