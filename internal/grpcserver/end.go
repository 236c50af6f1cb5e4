package grpcserver

import (
	"context"
	"errors"

	"google.golang.org/grpc/tap"
)

// endable is the context of a call that End can end.
type endable struct {
	context.Context //nolint:containedctx // it is one

	cancel context.CancelCauseFunc
}

// ended is the cause of a context that End has ended.
type ended struct{ error }

type endableKey struct{}

// Endable is a tap.ServerInHandle for grpc.InTapHandle. It returns a context for the call that End can end.
func Endable(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &endable{Context: ctx, cancel: cancel}, nil
}

// End ends a call whose server has the tap Endable because of err: grpc-go stops waiting for the client's messages, and
// for the client to read an answer, and returns DEADLINE_EXCEEDED from RecvMsg and SendMsg. It may be called by any
// goroutine.
func End(ctx context.Context, err error) {
	if c, ok := ctx.Value(endableKey{}).(*endable); ok {
		c.cancel(ended{err})
	}
}

// Ended returns the error with which End has ended the call, or nil.
func Ended(ctx context.Context) error {
	var cause ended
	if errors.As(context.Cause(ctx), &cause) {
		return cause.error
	}
	return nil
}

// Value returns the value of a key.
func (c *endable) Value(key any) any {
	if key == (endableKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Err returns context.DeadlineExceeded after End: grpc-go sends its code to the client.
func (c *endable) Err() error {
	err := c.Context.Err()
	if err != nil && Ended(c.Context) != nil {
		return context.DeadlineExceeded
	}
	return err
}
