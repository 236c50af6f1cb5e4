package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/commands"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/suggest"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
	"github.com/tidemark-dev/tidemark/storage/managed"
	"github.com/tidemark-dev/tidemark/storage/redis"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
)

// keysCommand is the command redis-keys: it connects to Redis itself, and needs no service.
type keysCommand struct {
	terminal cli.Terminal
	keyspace.Options
	json bool
}

func newRedisKeys(t cli.Terminal) *cobra.Command {
	k := &keysCommand{terminal: t}
	cmd := &cobra.Command{
		Use:   "redis-keys",
		Short: "Count all keys in Redis by kind, and show problems",
		Long: `Count the keys in Redis by kind, with their memory, their remaining lives, the largest keys, and
problems: temporary keys without a TTL, keys of an unexpected type, keys that Tidemark doesn't know.

It connects to Redis itself, with the options, variables and file of "tidemark serve", and needs no service. It changes
nothing. It scans all keys, at most --rate per second, on all primaries of a Cluster. The memory of a kind is estimated
from a sample. Keys that come or go meanwhile may be counted or not.`,
		Example: `  tidemark redis-keys --redis redis://127.0.0.1:6379
  tidemark redis-keys --config tidemark.yaml --kind session --kind unknown --json`,
		Args: cli.Arguments(0, 0),
	}
	config.AddRedisFlags(cmd.Flags())
	cmd.Flags().StringSliceVar(&k.Kinds, "kind", nil,
		"`KIND` count only keys of this kind, as GET /v1/kinds lists them, or unknown; repeatable")
	cmd.Flags().IntVar(&k.Rate, "rate", keyspace.DefaultRate,
		"`N` look at N keys a second at most, those of other prefixes included")
	cmd.Flags().IntVar(&k.Sample, "sample", keyspace.DefaultSample,
		"beyond 1,000 keys of a kind, measure the memory of one key in `N`")
	cmd.Flags().IntVar(&k.Largest, "largest", 3, "name the `N` largest keys of each kind, at most 100")
	cmd.Flags().BoolVar(&k.json, "json", false, "print a line of JSON for each Redis: redis and kinds")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := k.check(); err != nil {
			return err
		}
		c, err := config.LoadRedis(cmd.Flags(), t.Environ)
		if err != nil {
			return &cli.UsageError{Err: err}
		}
		k.Table = c.Records.Site.Table
		if err := k.checkKinds(); err != nil {
			return err
		}
		return k.run(cmd.Context(), c)
	}
	return cmd
}

func (k *keysCommand) check() error {
	switch {
	case k.Rate < 1:
		return cli.Usagef("--rate: %d is too small, at least 1 is needed", k.Rate)
	case k.Sample < 1:
		return cli.Usagef("--sample: %d is too small, at least 1 is needed", k.Sample)
	case k.Largest < 0 || k.Largest > keyspace.MaxLargest:
		return cli.Usagef("--largest: %d isn't from 0 to %d", k.Largest, keyspace.MaxLargest)
	}
	return nil
}

func (k *keysCommand) checkKinds() error {
	kinds := []string{records.Unknown}
	for _, kind := range k.Table.All() {
		kinds = append(kinds, kind.Name)
	}
	for _, name := range k.Kinds {
		if !slices.Contains(kinds, name) {
			return cli.Usagef("--kind: %q is no kind%s; \"tidemark api GET /v1/kinds\" lists them", name,
				suggest.Hint(suggest.Near(name, kinds)))
		}
	}
	return nil
}

// run surveys one Redis after the other.
func (k *keysCommand) run(ctx context.Context, c config.Config) error {
	needs := storeNeeds{log: newLogger(k.terminal.Stderr, c.Log.Format, c.Log.Level), metrics: prometheus.NewRegistry()}
	for _, server := range redisServers(c) {
		server.replica = true
		conn, err := server.open(ctx, c, needs)
		if err != nil {
			return err
		}
		report, err := k.survey(ctx, server.of, conn)
		conn.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", server.key, err)
		}
		if err := k.print(server.of, report); err != nil {
			return err
		}
	}
	return nil
}

// redisServers returns the Redis servers that a configuration names, that of the channels first.
func redisServers(c config.Config) []another {
	all := []another{ofChannels, ofTickets(c), ofSessions(c), ofCache(c)}
	return slices.DeleteFunc(all, func(server another) bool { return server.of != "channels" && server.url == "" })
}

// open connects a command to a Redis.
func (a another) open(ctx context.Context, c config.Config, needs storeNeeds) (*redis.Conn, error) {
	o, err := a.optionsOf(c, needs)
	if err != nil {
		return nil, err
	}
	return connect(ctx, a.key, o, c.Redis.ConnectTimeout)
}

// optionsOf returns the options of a Redis, also of that of the channels, which a service on this machine may run.
func (a another) optionsOf(c config.Config, needs storeNeeds) (redis.Options, error) {
	if a.of != ofChannels.of {
		return a.options(c, needs)
	}
	o, err := channelsOptions(c, needs)
	o.Replica = a.replica
	if err == nil && o.URL == "" {
		o.Kind = "managed"
		o.URL, err = managed.Find(c.Managed.DataDir)
	}
	return o, err
}

func (k *keysCommand) survey(ctx context.Context, of string, conn *redis.Conn) (keyspace.Report, error) {
	o, progress := k.Options, k.terminal.NewProgress()
	o.Progress = func(seen, total int64) { progress.Report("%d of %d keys of %s", seen, total, of) }
	return keyspace.Run(ctx, redisrecords.NewKeySource(conn), o)
}

// print prints a report.
func (k *keysCommand) print(of string, report keyspace.Report) error {
	if k.json {
		return cli.WriteLine(k.terminal.Stdout, struct {
			Redis string `json:"redis"`
			keyspace.Report
		}{of, report})
	}
	return commands.WriteReport(k.terminal.Stdout, of, report)
}
