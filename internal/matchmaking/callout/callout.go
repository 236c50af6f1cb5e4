package callout

import (
	"fmt"
	"log/slog"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
)

// Kinds of evaluators.
const (
	EvaluatorHTTP = "http"
	EvaluatorGRPC = "grpc"
)

// responseBytes is the size limit of a response: room for some hundred thousand matches.
const responseBytes = 32 << 20

// Function returns the match function of a queue's definition, whose kind is http or grpc. It calls targets only, or
// any service if targets is nil. Errors: fault.SlugInvalidQueue, with the key that is invalid, such as "match.url".
func Function(d matchmaking.Definition, log *slog.Logger, targets *jsonhttp.Targets) (matchmaking.MatchFunction,
	error) {
	if err := targets.Check(d.Match.URL); err != nil {
		return nil, matchmaking.InvalidKey("match.url", err)
	}
	switch d.Match.Function {
	case matchmaking.MatchHTTP:
		return newHTTPFunction(d, targets), nil
	case matchmaking.MatchGRPC:
		return newGRPCFunction(d, log, targets)
	default:
		return nil, matchmaking.InvalidKey("match.function", fmt.Errorf("%q is not http or grpc", d.Match.Function))
	}
}

// Evaluator returns the evaluator of a queue's definition, whose kind is http or grpc. It calls targets only, or any
// service if targets is nil. Errors: fault.SlugInvalidQueue, with the key that is invalid, such as "evaluator.url".
func Evaluator(d matchmaking.Definition, targets *jsonhttp.Targets) (matchmaking.Evaluator, error) {
	if err := targets.Check(d.Evaluator.URL); err != nil {
		return nil, matchmaking.InvalidKey("evaluator.url", err)
	}
	switch d.Evaluator.Kind {
	case EvaluatorHTTP:
		return &evaluator{queue: d.Name, call: newHTTPEvaluator(d, targets).call}, nil
	case EvaluatorGRPC:
		e, err := newGRPCEvaluator(d, targets)
		if err != nil {
			return nil, err
		}
		return &evaluator{queue: d.Name, call: e.call}, nil
	}
	return nil, matchmaking.InvalidKey("evaluator.kind", fmt.Errorf("%q is not http or grpc", d.Evaluator.Kind))
}
