package callout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// grpcEvaluator calls Open Match's Evaluator service.
type grpcEvaluator struct {
	conn    *grpc.ClientConn
	queue   string
	profile string
	timeout time.Duration
}

func newGRPCEvaluator(d matchmaking.Definition, targets *jsonhttp.Targets) (*grpcEvaluator, error) {
	conn, err := dialGRPC(d.Evaluator.URL, targets)
	if err != nil {
		return nil, matchmaking.InvalidKey("evaluator.url", err)
	}
	e := &grpcEvaluator{
		conn:    conn,
		queue:   d.Name,
		profile: cmp.Or(d.Profile.Name, d.Name),
		timeout: cmp.Or(d.Evaluator.Timeout.Std(), matchmaking.DefaultCallTimeout),
	}
	runtime.AddCleanup(e, closeConn, conn)
	return e, nil
}

type evaluation = grpc.BidiStreamingClient[openmatch.EvaluateRequest, openmatch.EvaluateResponse]

func (e *grpcEvaluator) call(ctx context.Context, proposals []matchmaking.Proposal) ([]string, error) {
	matches := make([]*openmatch.Match, len(proposals))
	for i, p := range proposals {
		match, err := matchOf(p, e.profile)
		if err != nil {
			return nil, fmt.Errorf("encode match %s: %w", p.ID, err)
		}
		matches[i] = match
	}
	callCtx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	calling, span := inQueue(callCtx, openmatch.Evaluator_Evaluate_FullMethodName, e.queue)
	stream, err := openmatch.NewEvaluatorClient(e.conn).Evaluate(calling)
	if err != nil {
		endSpan(span, err)
		return nil, callError(ctx, callCtx, err)
	}
	accepted, err := exchange(stream, matches, cancel)
	endSpan(span, err)
	if err != nil {
		return nil, callError(ctx, callCtx, err)
	}
	return accepted, nil
}

// exchange sends the matches and receives the accepted IDs at the same time, since an evaluator may respond before it
// has received all matches. stop ends the call.
func exchange(stream evaluation, matches []*openmatch.Match, stop context.CancelFunc) ([]string, error) {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for _, match := range matches {
			if stream.Send(&openmatch.EvaluateRequest{Match: match}) != nil {
				return // Recv returns the reason
			}
		}
		_ = stream.CloseSend()
	}()
	accepted, err := receive(stream, len(matches))
	stop()
	<-sent
	return accepted, err
}

// receive returns the accepted IDs, at most as many as the proposals.
func receive(stream evaluation, maxIDs int) ([]string, error) {
	var accepted []string
	for len(accepted) <= maxIDs {
		answer, err := stream.Recv()
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
