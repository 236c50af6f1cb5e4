// Package parts builds what a queue's definition names: its match function, evaluator and assigner. [Builder] returns
// the function that package matchmaking calls for each definition. The configuration uses it too, to check its queues
// before anything is started.
package parts

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/assigner"
	"github.com/tidemark-dev/tidemark/matchmaking/callout"
	"github.com/tidemark-dev/tidemark/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/matchmaking/function"
)

// Builder returns the function that makes the parts of queues. Queues that were put at run time can call only allowed
// targets; those of the configuration are the operator's and can call anything. Errors of the function:
// fault.SlugInvalidQueue.
func Builder(log *slog.Logger, allowed *jsonhttp.Targets) matchmaking.Build {
	return func(d matchmaking.Definition) (p matchmaking.Parts, err error) {
		var targets *jsonhttp.Targets // any: the definition is the operator's
		if d.RunTime {
			targets = allowed
		}
		if p.Matcher, err = matcherOf(d, log, targets); err != nil {
			return matchmaking.Parts{}, invalidQueue(err)
		}
		p.Evaluator = function.Decollide{}
		if d.Evaluator.Kind == callout.EvaluatorHTTP || d.Evaluator.Kind == callout.EvaluatorGRPC {
			if p.Evaluator, err = callout.Evaluator(d, targets); err != nil {
				return matchmaking.Parts{}, invalidQueue(err)
			}
		}
		if p.Assigner, err = assigner.New(d, targets); err != nil {
			return matchmaking.Parts{}, invalidQueue(err)
		}
		return p, nil
	}
}

func matcherOf(d matchmaking.Definition, log *slog.Logger, targets *jsonhttp.Targets) (matchmaking.Matcher, error) {
	m := d.Match
	switch m.Function {
	case matchmaking.MatchFirstCome:
		return function.Filtered(d.Profile, func() matchmaking.Matcher { return function.FirstCome(m.Teams, m.TeamSize) }), nil
	case matchmaking.MatchCriteria:
		o := function.CriteriaOptions{Teams: m.Teams, TeamSize: m.TeamSize, Acceptance: m.Acceptance, Weights: m.Weights, Widen: m.Widen}
		return function.Filtered(d.Profile, func() matchmaking.Matcher { return function.Criteria(o) }), nil
	case matchmaking.MatchHTTP, matchmaking.MatchGRPC:
		called, err := callout.Function(d, log, targets)
		if err != nil {
			return nil, err
		}
		return function.Custom(d.Profile, called), nil
	}
	return nil, fmt.Errorf("match.function: there is no %q", m.Function)
}

// keyOfPart is the key that the errors of a queue's parts begin with.
var keyOfPart = regexp.MustCompile(`^[a-z][A-Za-z]*\.[A-Za-z]+: `)

// invalidQueue says what is wrong with a definition that err is about.
func invalidQueue(err error) error {
	var told *fault.Error
	if errors.As(err, &told) {
		return err
	}
	key := keyOfPart.FindString(err.Error())
	return &fault.Error{
		Kind: fault.Invalid, Slug: fault.SlugInvalidQueue, Detail: err.Error(), Field: key[:max(0, len(key)-len(": "))],
	}
}
