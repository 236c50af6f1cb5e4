package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/assigner"
	"github.com/tidemark-dev/tidemark/matchmaking/callout"
	"github.com/tidemark-dev/tidemark/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/matchmaking/function"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

const (
	// leastTicketLife is how long tickets' channels live at least: as long as a ticket of the default queue can, and
	// its assignment after it.
	leastTicketLife = matchmaking.DefaultTicketTTL + matchmaking.DefaultAssignmentTTL
	// leastAssignmentBytes is how large an assignment may be at least, however small other messages are.
	leastAssignmentBytes = 256 << 10
)

// ticketLife is how long the channels of tickets live without activity: as long as any queue of the configuration needs.
func (c config) ticketLife() time.Duration {
	life := leastTicketLife
	for _, d := range c.Matchmaking.Queues {
		life = max(life, d.TicketTTL.Std()+d.AssignmentTTL.Std())
	}
	return life
}

// channelRules gives the rules of the configuration, and before them that of the channels of tickets.
func (c config) channelRules() []channel.Rule {
	if !c.Matchmaking.On {
		return c.Rules
	}
	tickets := channel.Rule{
		Pattern: regexp.QuoteMeta(matchmaking.ChannelPrefix) + ".*", TTL: c.ticketLife().String(),
		MaxMessageBytes: strconv.Itoa(max(c.Channel.MaxMessageBytes, leastAssignmentBytes)),
	}
	return append([]channel.Rule{tickets}, c.Rules...)
}

// matchmakingNeeds is what matchmaking is made with besides the configuration.
type matchmakingNeeds struct {
	queues   *redis.Queues
	channels *channel.Service
	log      *slog.Logger
	metrics  prometheus.Registerer
	parts    *layers
}

// startMatchmaking starts the service of tickets and queues. It is nil where there is none to be.
func startMatchmaking(ctx context.Context, c config, needs matchmakingNeeds) (*matchmaking.Service, error) {
	if !c.Matchmaking.On {
		return nil, nil
	}
	targets, err := jsonhttp.ParseTargets(c.Matchmaking.CalloutAllow)
	if err != nil {
		return nil, fmt.Errorf("callout-allow: %w", err)
	}
	service, err := matchmaking.NewService(matchmaking.Options{
		Store: needs.queues, Channels: needs.channels, Build: buildQueues(needs.log, targets), Definitions: c.Matchmaking.Queues,
		MaxQueues: c.Matchmaking.MaxQueues, ChannelTTL: c.ticketLife(), LeaseTTL: c.Matchmaking.LeaseTTL, Logger: needs.log, Metrics: needs.metrics,
	})
	if err != nil {
		return nil, err
	}
	needs.parts.run(ctx, "matchmaking service", service.Run)
	return service, nil
}

// buildQueues makes the function that makes the parts of queues. Those that were put at run time call targets only.
func buildQueues(log *slog.Logger, allowed *jsonhttp.Targets) matchmaking.Build {
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
		return function.Own(d.Profile, called), nil
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
