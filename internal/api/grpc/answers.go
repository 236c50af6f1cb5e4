package grpc

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/internal/grpcserver"
)

// answers limits the time of clients to read the answers to queries: an unread answer would never end.
type answers struct {
	limit time.Duration // for the whole answer
	stall time.Duration // without any read, so that the next message can't be sent
}

var defaultAnswers = answers{limit: time.Minute, stall: 5 * time.Second}

var errUnreadAnswer = status.Error(codes.DeadlineExceeded, "the answer was not read in time")

// begin limits the answer to a call until stop is called. Its messages must be sent by send.
func (a answers) begin(ctx context.Context) (send func(func() error) error, stop func()) {
	ends := time.Now().Add(a.limit)
	if r := requestOf(ctx); r != nil {
		setDeadlines(r, time.Time{}, ends)
		return func(message func() error) error {
			if stalled := time.Now().Add(a.stall); stalled.Before(ends) {
				setDeadlines(r, time.Time{}, stalled)
				defer setDeadlines(r, time.Time{}, ends)
			}
			return message()
		}, func() {}
	}
	timer := time.AfterFunc(a.limit, func() { grpcserver.End(ctx, errUnreadAnswer) })
	return func(message func() error) error {
		stalled := time.AfterFunc(a.stall, func() { grpcserver.End(ctx, errUnreadAnswer) })
		defer stalled.Stop()
		return message()
	}, func() { timer.Stop() }
}
