package main

import (
	"context"
	"errors"
	"os"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/tracing"
)

// openTracing returns the tracer that OpenTelemetry's standard variables configure, or nil. It is stopped after all
// other parts, so that it sends their last spans.
func openTracing(ctx context.Context, c config.Config, needs partNeeds) (*tracing.Tracer, error) {
	settings, err := tracing.Environment(os.Getenv)
	if err != nil {
		return nil, &cli.UsageError{Err: err}
	}
	tracer, err := tracing.New(ctx, tracing.Options{Settings: settings, Trust: c.Server.TrustTraces,
		Version: thisBuild().version, Logger: needs.log, Metrics: needs.metrics})
	if err != nil {
		return nil, &cli.UsageError{Err: err}
	}
	if tracer != nil {
		needs.log.InfoContext(ctx, "tracing requests", "collector", settings.Collector())
	}
	needs.parts.OnStop(func() { tracer.Close(context.WithoutCancel(ctx)) })
	return tracer, nil
}

// follow returns what traces the work of matchmaking that follows from traced tickets.
func follow(t *tracing.Tracer) matchmaking.Follow {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, w matchmaking.Work) (context.Context, string, func(error)) {
		ctx, span := t.Follow(ctx, w.Name+" "+w.Queue, w.Traces)
		if span.Recorded() {
			span.Set(tracing.Text(tracing.Queue, w.Queue))
			if w.MatchID != "" {
				span.Set(tracing.Text(tracing.Match, w.MatchID))
			}
		}
		return ctx, tracing.Of(ctx), func(err error) {
			if err != nil {
				span.Fail(classOf(err))
			}
			span.End()
		}
	}
}

// classOf returns the class of an error, for a span: its text may have values of users.
func classOf(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "failed"
}
