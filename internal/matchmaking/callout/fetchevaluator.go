package callout

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// FetchEvaluator returns the evaluator of a queue that its user directs: Open Match's Evaluator service over gRPC or
// its HTTP transcoding, or the default one. It calls targets only, or any service if targets is nil. Errors:
// fault.SlugInvalidQueue.
//
// A service receives each proposal when it is made, and may answer at any time. It must end its answer within
// evaluator.timeout after the last proposal.
func FetchEvaluator(d matchmaking.Definition, targets *jsonhttp.Targets) (backend.Evaluator, error) {
	if d.Evaluator.Kind != EvaluatorGRPC && d.Evaluator.Kind != EvaluatorHTTP {
		return backend.ByScore{}, nil
	}
	if err := targets.Check(d.Evaluator.URL); err != nil {
		return nil, matchmaking.InvalidKey("evaluator.url", err)
	}
	e := &fetchEvaluator{queue: d.Name, timeout: cmp.Or(d.Evaluator.Timeout.Std(), matchmaking.DefaultCallTimeout)}
	if d.Evaluator.Kind == EvaluatorHTTP {
		client := jsonhttp.New(targets, 0, responseBytes)
		url := strings.TrimSuffix(d.Evaluator.URL, "/") + "/v1/evaluator/matches:evaluate"
		e.open = func(ctx context.Context) (exchange, error) { return openHTTP(ctx, client, url), nil }
		e.close = client.CloseIdle
		return e, nil
	}
	conn, err := dialGRPC(d.Evaluator.URL, targets)
	if err != nil {
		return nil, matchmaking.InvalidKey("evaluator.url", err)
	}
	e.open = func(ctx context.Context) (exchange, error) { return openGRPC(ctx, conn, d.Name) }
	e.close = func() { closeConn(conn) }
	return e, nil
}

// fetchEvaluator calls an evaluator while functions propose.
type fetchEvaluator struct {
	queue   string
	timeout time.Duration
	open    func(ctx context.Context) (exchange, error)
	close   func()
}

// Close implements backend.Evaluator.
func (e *fetchEvaluator) Close() { e.close() }

// Evaluate implements backend.Evaluator.
func (e *fetchEvaluator) Evaluate(ctx context.Context, proposals <-chan backend.Proposal,
	accept func(id string) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	call, err := e.open(ctx)
	if err != nil {
		return failureOf(ctx, "evaluator", err)
	}
	return converse(call, func() { e.send(ctx, call, proposals, stop) },
		func() error { return failureOf(ctx, "evaluator", receiveIDs(call, accept)) }, func() { stop(nil) })
}

// send sends proposals until there are no more. An error of the call is returned by Receive.
func (e *fetchEvaluator) send(ctx context.Context, call exchange, proposals <-chan backend.Proposal,
	stop context.CancelCauseFunc) {
	for {
		select {
		case p, open := <-proposals:
			if !open {
				_ = call.Done()
				late := &backend.Failure{Code: backend.CodeDeadlineExceeded,
					Text: fmt.Sprintf("evaluator: no end of its answer within %s after the last proposal", e.timeout)}
				timer := time.AfterFunc(e.timeout, func() { stop(late) })
				<-ctx.Done()
				timer.Stop()
				return
			}
			match := new(openmatch.Match)
			if err := proto.Unmarshal(p.Content, match); err != nil {
				stop(fmt.Errorf("read a proposal: %w", err))
				return
			}
			if call.Send(match) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
