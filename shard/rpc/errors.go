package rpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/shard"
)

// maxText limits the bytes of an error's text: sent for a handler's error, and kept of a node's error.
const maxText = 512

// statusOf returns the status that a client gets for an error of a handler.
func statusOf(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Unavailable
	switch {
	case errors.Is(err, shard.ErrOtherCache):
		code = codes.NotFound
	case errors.Is(err, shard.ErrUndecodable):
		code = codes.InvalidArgument
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	return status.Error(code, cut(err.Error()))
}

// errorOf returns the error of a call: that of ctx if it has ended, or else one of package shard.
func errorOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := status.Convert(err)
	text := s.Code().String() + ": " + printable(s.Message())
	switch s.Code() {
	case codes.NotFound:
		return fmt.Errorf("%w: %s", shard.ErrOtherCache, text)
	case codes.InvalidArgument:
		return fmt.Errorf("%w: %s", shard.ErrUndecodable, text)
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.ResourceExhausted:
		return fmt.Errorf("the call can't succeed: %s", text)
	default:
		return fmt.Errorf("%w: %s", shard.ErrUnavailable, text)
	}
}

// printable returns the beginning of a text sent by a node, with unprintable characters quoted.
func printable(text string) string {
	quoted := strconv.Quote(cut(text))
	return quoted[1 : len(quoted)-1]
}

// cut returns the beginning of a text.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}
