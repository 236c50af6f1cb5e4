package callout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/openmatchconnect"
)

// grpcEvaluator calls Open Match's Evaluator service.
type grpcEvaluator struct {
	client  openmatchconnect.EvaluatorClient
	queue   string
	profile string
	timeout time.Duration
}

func newGRPCEvaluator(d matchmaking.Definition, targets *jsonhttp.Targets) *grpcEvaluator {
	return &grpcEvaluator{
		client:  openmatchconnect.NewEvaluatorClient(newHTTP2(d.Evaluator.URL, targets), d.Evaluator.URL, grpcOptions()...),
		queue:   d.Name,
		profile: cmp.Or(d.Profile.Name, d.Name),
		timeout: cmp.Or(d.Evaluator.Timeout.Std(), matchmaking.DefaultCallTimeout),
	}
}

type evaluation = connect.BidiStreamForClient[openmatch.EvaluateRequest, openmatch.EvaluateResponse]

func (e *grpcEvaluator) call(ctx context.Context, proposals []matchmaking.Proposal) ([]string, error) {
	matches := make([]*openmatch.Match, len(proposals))
	for i, p := range proposals {
		match, err := matchOf(p, e.profile)
		if err != nil {
			return nil, fmt.Errorf("encode match %s: %w", p.ID, err)
		}
		matches[i] = match
	}
	one, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	stream := e.client.Evaluate(one)
	stream.RequestHeader().Set(metadataQueue, e.queue)
	accepted, err := exchange(stream, matches, cancel)
	if err != nil {
		return nil, callError(ctx, one, err)
	}
	return accepted, nil
}

// exchange sends the matches and receives the accepted IDs at the same time, since an evaluator may respond before it has
// all matches. stop ends the call.
func exchange(stream *evaluation, matches []*openmatch.Match, stop context.CancelFunc) ([]string, error) {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for _, match := range matches {
			if stream.Send(&openmatch.EvaluateRequest{Match: match}) != nil {
				return // Receive returns the reason
			}
		}
		_ = stream.CloseRequest()
	}()
	accepted, err := receive(stream, len(matches))
	_ = stream.CloseResponse()
	stop()
	<-sent
	return accepted, err
}

// receive returns the accepted IDs, which must not be more than were proposed.
func receive(stream *evaluation, most int) ([]string, error) {
	var accepted []string
	for len(accepted) <= most {
		answer, err := stream.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return accepted, nil
		case err != nil:
			return nil, err
		}
		accepted = append(accepted, answer.GetMatchId())
	}
	return nil, errors.New("more matches accepted than proposed")
}
