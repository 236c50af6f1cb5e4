package commands

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/shard"
)

// OpenLayouts connects to the Redis of a configuration.
type OpenLayouts func(ctx context.Context, c config.Config) (layouts shard.Layouts, done func(), err error)

// Shards returns the commands that show and change how caches are split into shards. They read and write Redis
// themselves, and need no service.
func Shards(t cli.Terminal, open OpenLayouts) []*cobra.Command {
	b := base{terminal: t, open: open}
	return []*cobra.Command{newLayout(b), newReshard(b), newShardsStatus(b), newRemove(b)}
}

// base holds the common parts of the commands.
type base struct {
	terminal cli.Terminal
	open     OpenLayouts
	cache    string
	json     bool
}

const about = `

It connects to Redis itself, with the options, variables and file of "tidemark serve", and needs no service.`

// prepare adds the flags that all commands have, and makes a command run do after check.
func (b *base) prepare(cmd *cobra.Command, check func() error,
	do func(ctx context.Context, store shard.Layouts) error) *cobra.Command {
	cmd.Args = cli.Arguments(0, 0)
	cmd.Long += about
	config.AddChannelsRedisFlags(cmd.Flags())
	cmd.Flags().StringVar(&b.cache, "cache", "", "`CACHE` name of the cache, such as author; it must be set")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := b.checkNames(nil); err != nil {
			return err
		}
		if err := check(); err != nil {
			return err
		}
		c, err := config.LoadRedis(cmd.Flags(), b.terminal.Environ)
		if err != nil {
			return &cli.UsageError{Err: err}
		}
		store, done, err := b.open(cmd.Context(), c)
		if err != nil {
			return err
		}
		defer done()
		return do(cmd.Context(), store)
	}
	return cmd
}

// checkNames checks the names of the cache and of data centres.
func (b *base) checkNames(dcs []string) error {
	if b.cache == "" {
		return cli.Usagef("--cache isn't set: name the cache, such as author")
	}
	if err := shard.CheckName("cache", b.cache); err != nil {
		return cli.Usagef("--cache: %w", err)
	}
	for _, dc := range dcs {
		if err := shard.CheckName("data centre", dc); err != nil {
			return cli.Usagef("--dc: %w", err)
		}
	}
	return nil
}

// printf prints to standard output.
func (b *base) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(b.terminal.Stdout, format, args...)
	return err
}

// split holds the flags for the split of a cache.
type split struct {
	shards int
	starts []string
	given  func() bool // whether one of them is
}

func (s *split) add(cmd *cobra.Command) {
	s.given = func() bool { return cmd.Flags().Changed("shards") || cmd.Flags().Changed("starts") }
	cmd.Flags().IntVar(&s.shards, "shards", 0, "split into `N` shards of the same size, at most 1024")
	cmd.Flags().StringSliceVar(&s.starts, "starts", nil,
		"`KEYS` split into shards that begin with these sharding keys, such as 0,0x4000000000000000,0xc000000000000000: the first is 0, and they ascend")
}

// parse returns the starts, or nil if none are given.
func (s *split) parse() ([]uint64, error) {
	switch {
	case !s.given():
		return nil, nil
	case s.shards != 0 && len(s.starts) > 0:
		return nil, cli.Usagef("--shards and --starts: give one of them")
	case len(s.starts) > 0:
	case s.shards < 1 || s.shards > shard.MaxShards:
		return nil, cli.Usagef("--shards: %d isn't from 1 to %d", s.shards, shard.MaxShards)
	default:
		return shard.Even(s.shards), nil
	}
	starts := make([]uint64, len(s.starts))
	for i, text := range s.starts {
		digits, base := strings.TrimSpace(text), 10
		if hex, ok := strings.CutPrefix(digits, "0x"); ok {
			digits, base = hex, 16
		}
		n, err := strconv.ParseUint(digits, base, 64)
		if err != nil {
			return nil, cli.Usagef(
				"--starts: %q isn't a whole number from 0 to 18446744073709551615, decimal or hexadecimal with 0x",
				text)
		}
		starts[i] = n
	}
	if err := shard.CheckStarts(starts); err != nil {
		return nil, cli.Usagef("--starts: %w", err)
	}
	return starts, nil
}
