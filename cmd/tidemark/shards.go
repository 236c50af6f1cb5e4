package main

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/commands"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
)

// exitLost is the exit status of a node that has lost its shard: start it again. It is EX_TEMPFAIL of sysexits.h.
const exitLost = 75

func newShards(t cli.Terminal) *cobra.Command {
	group := cli.NewGroup("shards", "Hold caches in memory, split into shards", newShardServe(t))
	group.AddCommand(commands.Shards(t, func(ctx context.Context, c config.Config) (shard.Layouts, func(), error) {
		conn, _, err := connectRunning(ctx, c,
			storeNeeds{log: newLogger(t.Stderr, c.Log.Format, c.Log.Level), metrics: prometheus.NewRegistry()})
		if err != nil {
			return nil, nil, err
		}
		return shards.New(conn), conn.Close, nil
	})...)
	group.Aliases = []string{"shard"}
	return group
}

func newShardServe(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"start", "run", "server", "node"},
		Short:      "Hold a shard of a cache in memory, and answer from it",
		Args:       cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			signals, stop := notifyReload()
			defer stop()
			return runService(cmd, t, func(b *logBuffer) error {
				c, err := config.LoadNode(cmd.Flags(), t.Environ)
				if err != nil {
					return &cli.UsageError{Err: err}
				}
				return serveShard(cmd.Context(), c, reloads{
					read: func(running config.Config) (config.Reloaded, error) {
						next, err := config.LoadNodeAgain(cmd.Flags(), t.Environ)
						return running.ReloadNode(next), err
					},
					signals: signals, limit: reloadLimit,
				}, b)
			})
		},
	}
	config.AddNodeFlags(cmd.Flags())
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		if err := config.WriteNodeHelp(t.Stdout, t.HelpWidth()); err != nil {
			t.Report("%v", err)
		}
	})
	return cmd
}

// serveShard runs a node until ctx ends or a part of it fails.
func serveShard(ctx context.Context, c config.Config, r reloads, b *logBuffer) error {
	log, level := b.logger(c)
	r.level = level
	err := untilStopped(ctx, b, log, func(needs partNeeds) error {
		if err := startNode(ctx, c, needs); err != nil {
			return err
		}
		needs.parts.Run(ctx, "reloads", newReloader(c, r, needs).run)
		return nil
	})
	if errors.Is(err, lease.ErrLost) {
		log.ErrorContext(ctx, "the node has lost its shard: it must be started again", "error", err)
		return &cli.ExitError{Status: exitLost, Err: err}
	}
	return err
}
