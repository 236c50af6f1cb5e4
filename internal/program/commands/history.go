package commands

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

func newHistory(t cli.Terminal) *cobra.Command {
	var asJSON bool
	var queue string
	var since int64
	cmd := &cobra.Command{
		Use:        "history",
		SuggestFor: []string{"metrics", "overview", "top"},
		Short:      "Show what a server has counted and measured in the last hour",
		Long: `Show what the server that answers has counted and measured in the last hour: of each value the last point,
the least, the mean and the greatest. There is a point every ten seconds, and counts are of such an interval.
docs/http-api.md describes the values.`,
		Example: `  tidemark history
  tidemark history --queue duel --json | jq .columns.matches`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: History")
	cmd.Flags().StringVar(&queue, "queue", "", "`QUEUE` the values of this queue, instead of those of the server")
	cmd.Flags().Int64Var(&since, "since", 0, "`THROUGH` only the points after this member of an earlier answer")
	cli.CompleteFlag(cmd, "queue", connection.Queues)
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		query := url.Values{}
		if queue != "" {
			query.Set("queue", queue)
		}
		if since != 0 {
			query.Set("since", strconv.FormatInt(since, 10))
		}
		var h wire.History
		call := client.Call{What: "show the history", Method: http.MethodGet, Path: []string{"history"}, Query: query}
		if _, err := c.Do(ctx, call, &h); err != nil {
			return err
		}
		if asJSON {
			return cli.WriteLine(t.Stdout, h)
		}
		return writeHistory(t, h)
	})
	return cmd
}

// writeHistory writes the values that were measured, for people to read.
func writeHistory(t cli.Terminal, h wire.History) error {
	rows := "VALUE\tLAST\tMIN\tMEAN\tMAX\n"
	add := func(about string, columns wire.Columns) {
		for _, name := range slices.Sorted(maps.Keys(columns)) {
			rows += historyRow(about+name, columns[name])
		}
	}
	add("", h.Columns)
	for _, group := range []struct {
		about string
		of    map[string]wire.Columns
	}{{"cache", h.Caches}, {"status", h.Errors}, {"redis", h.RedisFailures}} {
		for _, of := range slices.Sorted(maps.Keys(group.of)) {
			add(group.about+" "+of+" ", group.of[of])
		}
	}
	if len(h.Times) == 0 {
		_, err := fmt.Fprintln(t.Stdout, "no point yet: there is one every ten seconds")
		return err
	}
	return cli.WriteTable(t.Stdout, rows)
}

// historyRow returns the row of a value, or nothing if it was never measured.
func historyRow(name string, column wire.Column) string {
	least, highest, sum, points, last := math.Inf(1), math.Inf(-1), 0.0, 0, "-"
	for _, v := range column {
		f := float64(v)
		if last = "-"; math.IsNaN(f) {
			continue
		}
		least, highest, sum, points, last = min(least, f), max(highest, f), sum+f, points+1, short(f)
	}
	if points == 0 {
		return ""
	}
	return cli.Row("%s\t%s\t%s\t%s\t%s\n", name, last, short(least), short(sum/float64(points)), short(highest))
}

// short returns a number with at most four significant digits after the point.
func short(f float64) string {
	if math.Abs(f) >= 1000 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 4, 64)
}
