package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/lifecycle"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/builder"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
)

// matchmakingNeeds is the dependencies of matchmaking besides the configuration.
type matchmakingNeeds struct {
	queues   *queues.Store
	lookup   matchmaking.Lookup
	channels *channel.Service
	token    func(ctx context.Context, ticket string, created time.Time) string
	follow   matchmaking.Follow
	log      *slog.Logger
	counts   *metrics.Queues
	metrics  prometheus.Registerer
	parts    *lifecycle.Stack
}

// startedMatchmaking is the services of matchmaking.
type startedMatchmaking struct {
	*service.Service
	fetcher *backend.Synchronizer
}

// startMatchmaking starts the services of tickets and queues. It returns nil if matchmaking is off.
func startMatchmaking(ctx context.Context, c config.Config, needs matchmakingNeeds) (*startedMatchmaking, error) {
	if !c.Matchmaking.On {
		return nil, nil
	}
	targets, err := jsonhttp.ParseTargets(c.Matchmaking.CalloutAllow)
	if err != nil {
		return nil, fmt.Errorf("callout-allow: %w", err)
	}
	director := matchmaking.DirectorService
	if c.GRPC.OpenMatch.Backend != "" {
		director = matchmaking.DirectorUser
	}
	s, err := service.New(service.Options{
		Store: needs.queues, Lookup: needs.lookup, Channels: delivery.New(needs.channels),
		Build: builder.Builder(needs.log, targets), Definitions: c.Matchmaking.Queues, Token: needs.token,
		DefaultDirector: director, MaxQueues: c.Matchmaking.MaxQueues, ChannelTTL: c.TicketLife(),
		Timing: service.Timing{LeaseTTL: c.Matchmaking.LeaseTTL},
		Follow: needs.follow, Logger: needs.log, Metrics: needs.counts,
	})
	if err != nil {
		return nil, err
	}
	if err := metrics.RegisterWaits(needs.metrics, s.Waits); err != nil {
		return nil, fmt.Errorf("matchmaking metrics: %w", err)
	}
	needs.parts.Run(ctx, "matchmaking service", s.Run)
	fetcher, err := startFetching(ctx, s, targets, needs)
	if err != nil {
		return nil, err
	}
	return &startedMatchmaking{s, fetcher}, nil
}

// startFetching starts the service that fetches matches for queues that are directed by their users.
func startFetching(
	ctx context.Context, s *service.Service, targets *jsonhttp.Targets, needs matchmakingNeeds,
) (*backend.Synchronizer, error) {
	functions := callout.NewFunctions(targets)
	fetcher, err := backend.New(backend.Options{
		Store: needs.queues, Functions: functions,
		Evaluator: func(d matchmaking.Definition) (backend.Evaluator, error) {
			if d.RunTime {
				return callout.FetchEvaluator(d, targets)
			}
			return callout.FetchEvaluator(d, nil)
		},
		Queue: s.UserQueue, Follow: needs.follow, Logger: needs.log, Metrics: needs.counts,
	})
	if err != nil {
		return nil, err
	}
	needs.parts.Run(ctx, "synchronizer", func(ctx context.Context) error {
		defer functions.Close()
		return fetcher.Run(ctx)
	})
	return fetcher, nil
}
