package callout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/openmatchconnect"
)

// grpcFunction is a match function that serves Open Match's MatchFunction.
type grpcFunction struct {
	client  openmatchconnect.MatchFunctionClient
	log     *slog.Logger
	queue   string
	teams   int // that a match's tickets are dealt out to
	timeout time.Duration
	limit   int // bytes of an answer in all
}

func newGRPCFunction(d matchmaking.Definition, log *slog.Logger, targets *jsonhttp.Targets) *grpcFunction {
	return &grpcFunction{
		client:  openmatchconnect.NewMatchFunctionClient(newHTTP2(d.Match.URL, targets), d.Match.URL, grpcOptions()...),
		log:     log,
		queue:   d.Name,
		teams:   max(d.Match.Teams, 1),
		timeout: timeoutOf(d.Match.Timeout),
		limit:   answerBytes,
	}
}

// Match calls the function once.
func (f *grpcFunction) Match(
	ctx context.Context, p matchmaking.Profile, pools map[string][]*matchmaking.Ticket,
) ([]matchmaking.Proposal, error) {
	profile, err := profileOf(f.queue, p, pools)
	if err != nil {
		return nil, fmt.Errorf("write the profile of queue %s for its match function: %w", f.queue, err)
	}
	one, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	found := newProposals(pools)
	if err := f.run(one, profile, found); err != nil {
		return nil, fmt.Errorf("call the match function of queue %s: %w", f.queue, why(ctx, one, err))
	}
	return found.made, nil
}

// run receives proposals until the function has no more.
func (f *grpcFunction) run(ctx context.Context, profile *openmatch.MatchProfile, found *proposals) error {
	request := connect.NewRequest(&openmatch.RunRequest{Profile: profile})
	request.Header().Set(metadataQueue, f.queue)
	stream, err := f.client.Run(ctx, request)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	for size := 0; stream.Receive(); {
		if size += proto.Size(stream.Msg()); size > f.limit {
			return fmt.Errorf("%w: over %d bytes", jsonhttp.ErrTooLarge, f.limit)
		}
		if err := f.add(ctx, stream.Msg().GetProposal(), found); err != nil {
			return err
		}
	}
	return stream.Err()
}

// add takes a match, unless a ticket of it doesn't wait any more: the function reads tickets by itself, a little
// earlier or later than the queue's director.
func (f *grpcFunction) add(ctx context.Context, match *openmatch.Match, found *proposals) error {
	a, err := answeredOf(match, f.teams)
	if err != nil {
		return err
	}
	err = found.add(a)
	var unknown *unknownTicketError
	if errors.As(err, &unknown) {
		f.log.LogAttrs(ctx, slog.LevelDebug, "a match is left out, since a ticket of it isn't waiting",
			slog.String("queue", f.queue), slog.String("match", unknown.match), slog.String("ticket", unknown.ticket))
		return nil
	}
	return err
}
