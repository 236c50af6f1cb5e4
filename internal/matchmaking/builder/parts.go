// Package builder builds the match function, evaluator and assigner that a queue's definition names. [Builder] returns
// the function that package matchmaking calls for each definition. The configuration calls it too, to check its queues
// before anything is started.
package builder

import (
	"fmt"
	"log/slog"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/assigner"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
)

// Builder returns the function that builds the parts of queues. Queues that were created at run time may call allowed
// targets only; those of the configuration, which are the operator's, may call anything. Errors of the function:
// fault.SlugInvalidQueue.
func Builder(log *slog.Logger, allowed *jsonhttp.Targets) matchmaking.Build {
	return func(d matchmaking.Definition) (p matchmaking.Parts, err error) {
		var targets *jsonhttp.Targets // nil: any
		if d.RunTime {
			targets = allowed
		}
		if !d.ByUser() {
			if p.Matcher, err = matcherOf(d, log, targets); err != nil {
				return matchmaking.Parts{}, err
			}
			if p.Assigner, err = assigner.New(d, targets); err != nil {
				return matchmaking.Parts{}, err
			}
		}
		p.Evaluator = function.Decollide{}
		if d.Evaluator.Kind == callout.EvaluatorHTTP || d.Evaluator.Kind == callout.EvaluatorGRPC {
			if p.Evaluator, err = callout.Evaluator(d, targets); err != nil {
				return matchmaking.Parts{}, err
			}
		}
		p.Fields = fieldsOf(d)
		return p, nil
	}
}

// fieldsOf returns the fields of tickets that the parts of a queue read. Parts that send tickets to others read all.
func fieldsOf(d matchmaking.Definition) matchmaking.Fields {
	builtIn := d.Match.Function == matchmaking.MatchFirstCome || d.Match.Function == matchmaking.MatchCriteria
	switch {
	case !builtIn, d.Evaluator.Kind == callout.EvaluatorGRPC, d.Assigner.Kind == matchmaking.AssignWebhook:
		return matchmaking.FieldsAll
	case len(d.Profile.Pools) > 0:
		return matchmaking.FieldsSearch
	}
	return matchmaking.FieldsMatching
}

func matcherOf(d matchmaking.Definition, log *slog.Logger, targets *jsonhttp.Targets) (matchmaking.Matcher, error) {
	m := d.Match
	switch m.Function {
	case matchmaking.MatchFirstCome:
		return function.Filtered(d.Profile,
			func() matchmaking.Matcher { return function.FirstCome(m.Teams, m.TeamSize) }), nil
	case matchmaking.MatchCriteria:
		return function.Filtered(d.Profile,
			func() matchmaking.Matcher { return function.Criteria(function.OptionsOf(m)) }), nil
	case matchmaking.MatchHTTP, matchmaking.MatchGRPC:
		called, err := callout.Function(d, log, targets)
		if err != nil {
			return nil, err
		}
		limit := m.FetchLimit
		if m.Function == matchmaking.MatchGRPC {
			limit = 0 // it asks for the tickets itself
		}
		return function.Custom(d.Profile, called, limit), nil
	}
	return nil, matchmaking.InvalidKey("match.function", fmt.Errorf("unknown match function %q", m.Function))
}
