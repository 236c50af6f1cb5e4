package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

func newCache(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("cache", "Read, store and invalidate cached values", newCachePut(t), newCacheShow(t),
		newCacheDelete(t), newCacheInvalidate(t), cli.Renamed("get", "cache show", newCacheShow(t)))
}

const kindsOfCache = "KIND is a kind of the cache that \"tidemark records kinds\" shows, such as author."

func newCachePut(t cli.Terminal) *cobra.Command {
	var o records.PutOptions
	cmd := &cobra.Command{
		Use:        "put KIND ID [VALUE]",
		SuggestFor: []string{"set", "store"},
		Short:      "Store a value",
		Long:       "Store a value.\n\n" + kindsOfCache + " If VALUE is missing or -, it is read from standard input.",
		Example: `  tidemark cache put author-followers 123 '[123,456,789]'
  tidemark cache put shouts limit=20:offset=0 --tags front-page < shouts.json`,
		Args: cli.Arguments(2, 3),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().DurationVar(&o.TTL, "ttl", 0, "`DURATION` how long the value lives (default: as long as its kind allows)")
	cmd.Flags().StringSliceVar(&o.Tags, "tags", nil, "`TAGS` names by which the value can be invalidated, separated by commas")
	connection.HandleQuietly("kind and id", func(ctx context.Context, c *client.Client, args []string) (_ any, err error) {
		var value []byte
		if len(args) == 3 && args[2] != "-" {
			value = []byte(args[2])
		} else if value, err = t.ReadInput(ctx, "the value"); err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return map[string]string{"kind": args[0], "id": args[1]},
			records.New(c).PutCached(ctx, args[0], args[1], value, o)
	})
	return cmd
}

func newCacheShow(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show KIND ID...",
		Short: "Print a value, or several",
		Long: "Print a value as it is, or several as lines of JSON.\n\n" + kindsOfCache +
			" Of several values, those that aren't cached are left out.",
		Example: "  tidemark cache show author 123\n  tidemark cache show topic 1 2 3",
		Args:    cli.Arguments(2, 1000),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON for each value that is cached, with id and value")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		kind, ids := args[0], args[1:]
		if len(ids) == 1 && !asJSON {
			value, err := records.New(c).Cached(ctx, kind, ids[0])
			if err == nil {
				_, err = t.Stdout.Write(value)
			}
			return err
		}
		found, err := records.New(c).CachedMany(ctx, kind, ids)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if value, ok := found[id]; ok {
				if err := cli.WriteLine(t.Stdout, wire.CachedValue{ID: id, Value: value}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return cmd
}

func newCacheDelete(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "delete KIND ID",
		SuggestFor: []string{"remove"},
		Short:      "Remove a value",
		Long:       "Remove a value.\n\n" + kindsOfCache,
		Args:       cli.Arguments(2, 2),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	connection.HandleQuietly("kind and id", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		return map[string]string{"kind": args[0], "id": args[1]}, records.New(c).DeleteCached(ctx, args[0], args[1])
	})
	return cmd
}

func newCacheInvalidate(t cli.Terminal) *cobra.Command {
	var tags []string
	var kind, prefix string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "invalidate",
		Short: "Remove values by tag or by prefix",
		Long: `Remove values by tag or by prefix, and print how many there were.

With --tags, values of all kinds that have one of the tags. With --kind, values of a kind such as search whose IDs begin
with --prefix: without it all.`,
		Example: "  tidemark cache invalidate --tags topic:5\n  tidemark cache invalidate --kind search",
		Args:    cli.Arguments(0, 0),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().StringSliceVar(&tags, "tags", nil, "`TAGS` invalidate the values that have one of these, separated by commas")
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: values, their number")
	cmd.Flags().StringVar(&kind, "kind", "", "`KIND` kind of the values with the prefix")
	cmd.Flags().StringVar(&prefix, "prefix", "", "`TEXT` beginning of the IDs of the values")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) (err error) {
		n := 0
		switch {
		case (len(tags) > 0) == (kind != ""):
			return cli.Usagef("either --tags or --kind is needed")
		case kind == "" && prefix != "":
			return cli.Usagef("--prefix needs --kind")
		case kind == "":
			n, err = records.New(c).InvalidateTags(ctx, tags...)
		default:
			n, err = records.New(c).InvalidatePrefix(ctx, kind, prefix)
		}
		switch {
		case err != nil:
			return err
		case asJSON:
			return cli.WriteLine(t.Stdout, wire.Invalidated{Values: n})
		}
		_, err = fmt.Fprintln(t.Stdout, n)
		return err
	})
	return cmd
}
