package commands

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newStats(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("stats", "Count by hour, day and week", newStatsAdd(t), newStatsSet(t), newStatsShow(t),
		cli.Renamed("get", "stats show", newStatsShow(t)))
}

const statsHelp = `A metric is one number, an entity has a number for each field. TIMEFRAME is hourly, daily or weekly; what is changed is the present
hour, day or week, in UTC.`

func newStatsAdd(t cli.Terminal) *cobra.Command {
	var unique string
	cmd := &cobra.Command{
		Use:     "add NAME TIMEFRAME NUMBER|FIELD=NUMBER...",
		Short:   "Add to a metric, or to fields of an entity, and print them",
		Long:    "Add to a metric, or to fields of an entity, and print them. Numbers may be negative.\n\n" + statsHelp,
		Example: "  tidemark stats add cache_hits daily 12\n  tidemark stats add topics weekly created=1 deleted=2",
		Args:    cli.Arguments(3, 66),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.OnlyJSON(cmd, "StatsWindow or MetricWindow")
	cmd.Flags().StringVar(&unique, "id", "", "`ID` a name for the addition: another one with it within an hour adds nothing")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		return changeStats(t, args, func(number int64) (any, error) {
			return records.New(c).AddMetric(ctx, args[0], args[1], number, unique)
		}, func(fields map[string]int64) (any, error) {
			return records.New(c).AddStats(ctx, args[0], args[1], fields, unique)
		})
	})
	return cmd
}

func newStatsSet(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "set NAME TIMEFRAME NUMBER|FIELD=NUMBER...",
		Short:   "Set a metric, or fields of an entity, and print them",
		Long:    "Set a metric, or fields of an entity, and print them.\n\n" + statsHelp,
		Example: "  tidemark stats set active_sessions hourly 321",
		Args:    cli.Arguments(3, 66),
	}
	cli.OnlyJSON(cmd, "StatsWindow or MetricWindow")
	cli.AddConnection(cmd, t, 5*time.Second).Handle(func(ctx context.Context, c *client.Client, args []string) error {
		return changeStats(t, args, func(number int64) (any, error) {
			return records.New(c).SetMetric(ctx, args[0], args[1], number)
		}, func(fields map[string]int64) (any, error) {
			return records.New(c).SetStats(ctx, args[0], args[1], fields)
		})
	})
	return cmd
}

// changeStats calls metric for a number, or entity for fields with numbers, and prints what it returns.
func changeStats(t cli.Terminal, args []string, metric func(int64) (any, error),
	entity func(map[string]int64) (any, error)) error {
	fields := map[string]int64{}
	for _, arg := range args[2:] {
		name, text, isField := strings.Cut(arg, "=")
		if !isField {
			name, text = "", arg
		}
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil || isField == (name == "") || !isField && len(args) > 3 {
			return cli.Usagef("%q isn't FIELD=NUMBER", arg)
		}
		fields[name] = number
	}
	var changed any
	var err error
	if number, isMetric := fields[""]; isMetric && len(args) == 3 {
		changed, err = metric(number)
	} else {
		changed, err = entity(fields)
	}
	if err != nil {
		return err
	}
	return cli.WriteLine(t.Stdout, changed)
}

func newStatsShow(t cli.Terminal) *cobra.Command {
	var metric bool
	var last time.Duration
	cmd := &cobra.Command{
		Use:   "show NAME TIMEFRAME",
		Short: "Print the windows of an entity or a metric, each as one line of JSON",
		Long: `Print the windows of an entity or a metric, each as one line of JSON, the oldest first. Hours are kept for 7 days, days and weeks for
30 days.`,
		Example: "  tidemark stats show topics weekly\n  tidemark stats show --metric cache_hits hourly --last 24h",
		Args:    cli.Arguments(2, 2),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.OnlyJSON(cmd, "StatsWindow or MetricWindow, a line for each")
	cmd.Flags().BoolVar(&metric, "metric", false, "NAME is a metric, not an entity")
	cmd.Flags().DurationVar(&last, "last", 0, "from so long ago until now (default: the present window)")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		var from time.Time
		if last > 0 {
			from = time.Now().Add(-last)
		}
		if metric {
			found, err := records.New(c).Metric(ctx, args[0], args[1], from, time.Time{})
			if err != nil {
				return err
			}
			return writeLines(t, found)
		}
		found, err := records.New(c).Stats(ctx, args[0], args[1], from, time.Time{})
		if err != nil {
			return err
		}
		return writeLines(t, found)
	})
	return cmd
}
