package commands

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newSlowLog(t cli.Terminal) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:        "slowlog",
		SuggestFor: []string{"slow", "redis-slowlog", "latency"},
		Short:      "Show which calls were slow in Redis",
		Long: `Show which calls were slow in Redis: the latest in the slow log of each primary of each Redis that the service
uses, also those of other programs. They took longer than the slowlog-log-slower-than of Redis, without the time in
which they waited for others. Of the arguments only keys of the service are shown, and the name of its script.

The user of Redis needs the right +slowlog|get, which nothing else needs.`,
		Example: `  tidemark slowlog --limit 5`,
		Args:    cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 10*time.Second)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: SlowLogs")
	cmd.Flags().IntVar(&limit, "limit", 20, "how many calls of each primary to show, at most 100")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		logs, err := c.SlowLogs(ctx, limit)
		switch {
		case err != nil:
			return err
		case asJSON:
			return cli.WriteLine(t.Stdout, logs)
		}
		return writeSlowLogs(t, logs)
	})
	return cmd
}

func writeSlowLogs(t cli.Terminal, logs client.SlowLogs) error {
	rows := "REDIS\tADDRESS\tAT\tTOOK\tCALL\tKEYS\tCLIENT\n"
	calls := 0
	for _, r := range logs.Redis {
		if r.Error != "" {
			t.Report("%s: %s", r.Of, r.Error)
		}
		for _, log := range r.Logs {
			if log.Error != "" {
				t.Report("%s: %s: %s", r.Of, log.Address, strings.TrimSuffix(log.Error+"; "+log.Remedy, "; "))
			}
			for _, call := range log.Calls {
				calls++
				rows += cli.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Of, log.Address, call.At.Local().Format(time.DateTime),
					time.Duration(call.Micros)*time.Microsecond, strings.TrimSpace(call.Command+" "+call.Script),
					strings.Join(call.Keys, " "), cmp.Or(call.Client, "in a script"))
			}
		}
	}
	if calls == 0 {
		_, err := fmt.Fprintln(t.Stdout, "no slow calls")
		return err
	}
	return cli.WriteTable(t.Stdout, rows)
}
