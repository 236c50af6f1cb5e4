package callout

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/callout/jsonhttp"
)

// The kinds of evaluators that are called.
const (
	EvaluatorHTTP = "http"
	EvaluatorGRPC = "grpc"
)

// answerBytes is how large an answer may be: some hundred thousand matches.
const answerBytes = 32 << 20

// Function makes the match function that a queue's definition says is called: of the kinds http and grpc. It is safe
// for concurrent use. Its errors say what is wrong with the definition and start with the key, such as "match.url". It
// calls targets only; nil: any.
func Function(d matchmaking.Definition, log *slog.Logger, targets *jsonhttp.Targets) (matchmaking.MatchFunction, error) {
	if err := cmp.Or(jsonhttp.CheckURL(d.Match.URL), targets.Check(d.Match.URL)); err != nil {
		return nil, fmt.Errorf("match.url: %w", err)
	}
	switch d.Match.Function {
	case matchmaking.MatchHTTP:
		return newHTTPFunction(d, targets), nil
	case matchmaking.MatchGRPC:
		return newGRPCFunction(d, log, targets), nil
	default:
		return nil, fmt.Errorf("match.function: %q isn't called: only http and grpc are", d.Match.Function)
	}
}

// Evaluator makes the evaluator that a queue's definition says is called: of the kinds http and grpc. It is safe for
// concurrent use. Its errors say what is wrong with the definition and start with the key, such as "evaluator.url".
// It calls targets only; nil: any.
func Evaluator(d matchmaking.Definition, targets *jsonhttp.Targets) (matchmaking.Evaluator, error) {
	if err := cmp.Or(jsonhttp.CheckURL(d.Evaluator.URL), targets.Check(d.Evaluator.URL)); err != nil {
		return nil, fmt.Errorf("evaluator.url: %w", err)
	}
	switch d.Evaluator.Kind {
	case EvaluatorHTTP:
		return &evaluator{queue: d.Name, ask: newHTTPEvaluator(d, targets).ask}, nil
	case EvaluatorGRPC:
		return &evaluator{queue: d.Name, ask: newGRPCEvaluator(d, targets).ask}, nil
	}
	return nil, fmt.Errorf("evaluator.kind: %q isn't called: only http and grpc are", d.Evaluator.Kind)
}

// timeoutOf gives a definition's time limit, or the default where it has none.
func timeoutOf(d matchmaking.Duration) time.Duration {
	if d <= 0 {
		return matchmaking.DefaultCallTimeout
	}
	return d.Std()
}
