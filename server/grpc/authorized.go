package grpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/server/web"
)

const metadataAuthorization = "authorization"

// authorized authenticates the client and counts the call before its message is read, and checks what the client may do, to
// which resource as soon as the message has arrived. A stream ends when the client's credential does.
func authorized(m *method, next grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, ss grpc.ServerStream) error {
		ctx, p, err := m.admit(ss.Context())
		ss.(*call).client = p
		if err == nil {
			err = m.router.Guard().Check(ctx, p, m.need.action, access.Resource{})
		}
		if err != nil {
			return err
		}
		s := &authorizedStream{ServerStream: ss, method: m, ctx: ctx}
		if !m.streams {
			return next(srv, s)
		}
		held, release := m.router.Guard().Hold(s.ctx, p)
		defer release()
		s.ctx = held
		err = next(srv, s)
		if ended := credentialEnd(held); err != nil && ended != nil {
			return ended
		}
		return err
	}
}

// admit authenticates the client, counts the call, and returns its context with both. On the HTTP port the plumbing has done
// so.
func (m *method) admit(ctx context.Context) (context.Context, *access.Principal, error) {
	if m.http {
		return ctx, access.From(ctx), nil
	}
	address := m.clientOf(ctx)
	credential, err := web.Token(metadata.ValueFromIncomingContext(ctx, metadataAuthorization))
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

// credentialEnd returns why the client's credential isn't valid any more, or nil.
func credentialEnd(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, access.ErrExpired) || errors.Is(cause, access.ErrRevoked) {
		return cause
	}
	return nil
}

// authorizedStream is the stream of a call whose client has a principal, which its context carries.
type authorizedStream struct {
	grpc.ServerStream
	method  *method
	ctx     context.Context //nolint:containedctx // of the call, as in grpc-go
	checked bool            // the first message was
}

// Context returns the context of the call.
func (s *authorizedStream) Context() context.Context { return s.ctx }

// RecvMsg reads a message, and checks whether the client's credential is still valid, since a message may come late, and whether
// the client may do to its resource what it asks for.
func (s *authorizedStream) RecvMsg(message any) error {
	err := s.ServerStream.RecvMsg(message)
	if err == nil {
		err = s.method.router.Guard().Valid(access.From(s.ctx))
	}
	if err != nil || s.checked || s.method.need.of == nil {
		return err
	}
	s.checked = true
	return s.method.router.Guard().Check(s.ctx, access.From(s.ctx), s.method.need.action, s.method.need.of(s.ctx, message))
}
