package callout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// grpcFunction calls Open Match's MatchFunction service.
type grpcFunction struct {
	conn    *grpc.ClientConn
	log     *slog.Logger
	queue   string
	teams   int // of a match
	timeout time.Duration
	limit   int // of all bytes of a response
}

func newGRPCFunction(d matchmaking.Definition, log *slog.Logger, targets *jsonhttp.Targets) (*grpcFunction, error) {
	conn, err := dialGRPC(d.Match.URL, targets)
	if err != nil {
		return nil, matchmaking.InvalidKey("match.url", err)
	}
	f := &grpcFunction{
		conn:    conn,
		log:     log,
		queue:   d.Name,
		teams:   max(d.Match.Teams, 1),
		timeout: cmp.Or(d.Match.Timeout.Std(), matchmaking.DefaultCallTimeout),
		limit:   responseBytes,
	}
	runtime.AddCleanup(f, closeConn, conn)
	return f, nil
}

// Match calls the function once.
func (f *grpcFunction) Match(
	ctx context.Context, p matchmaking.Profile, pools map[string][]*matchmaking.Ticket,
) ([]matchmaking.Proposal, error) {
	profile, err := profileOf(f.queue, p, pools)
	if err != nil {
		return nil, fmt.Errorf("encode the profile of queue %s for its match function: %w", f.queue, err)
	}
	callCtx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	all := newProposals(pools)
	if err := f.run(callCtx, profile, all); err != nil {
		return nil, fmt.Errorf("call the match function of queue %s: %w", f.queue, callError(ctx, callCtx, err))
	}
	return all.valid, nil
}

// run adds the matches of the function's responses.
func (f *grpcFunction) run(ctx context.Context, profile *openmatch.MatchProfile, all *proposals) error {
	size := 0
	request := &openmatch.RunRequest{Profile: profile}
	return runFunction(ctx, f.conn, f.queue, request, func(r *openmatch.RunResponse) error {
		if size += proto.Size(r); size > f.limit {
			return fmt.Errorf("%w: over %d bytes", jsonhttp.ErrTooLarge, f.limit)
		}
		return f.add(ctx, r.GetProposal(), all)
	})
}

// add adds a match, unless one of its tickets is not waiting: the function queries tickets itself, shortly before or
// after the queue's director.
func (f *grpcFunction) add(ctx context.Context, match *openmatch.Match, all *proposals) error {
	a, err := foundOf(match, f.teams)
	if err != nil {
		return err
	}
	err = all.add(a)
	var unknown *unknownTicketError
	if errors.As(err, &unknown) {
		f.log.LogAttrs(ctx, slog.LevelDebug, "ignored a match with a ticket that is not waiting",
			slog.String("queue", f.queue), slog.String("match", unknown.match), slog.String("ticket", unknown.ticket))
		return nil
	}
	return err
}
