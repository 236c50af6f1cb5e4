package commands

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newQueueShow(t cli.Terminal) *cobra.Command {
	var asJSON, waiting bool
	cmd := &cobra.Command{
		Use:        "show QUEUE",
		SuggestFor: []string{"describe", "get", "view"},
		Short:      "Show how many tickets wait in a queue, for how long, and why",
		Long: `Show how many tickets wait in a queue, and for how long.

Unless --waiting is false, the waiting tickets are examined, the oldest 10,000 at most: the waits of the tickets in each
range of a statistic, for the statistics in most criteria; and for the tickets that have waited the longest, the numbers
of other tickets that ask for the same kind of match, that they accept, that accept them, and that are candidates for a
match of two.`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.CompleteArguments(cmd, 1, connection.Queues)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON: QueueDescription")
	cmd.Flags().BoolVar(&waiting, "waiting", true, "examine the waiting tickets, too")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		describe := c.DescribeQueue
		if waiting {
			describe = c.DescribeWaiting
		}
		d, err := describe(ctx, args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return cli.WriteLine(t.Stdout, d)
		}
		return writeQueue(t.Stdout, d)
	})
	return cmd
}

// writeQueue writes a queue for people to read.
func writeQueue(w io.Writer, d client.QueueDescription) error {
	o, err := outlineOf(d.Queue)
	if err != nil {
		return err
	}
	waits := "no match was made recently"
	if d.Waits != nil {
		waits = fmt.Sprintf("p50 %s, p90 %s, p99 %s", ms(d.Waits.P50), ms(d.Waits.P90),
			ms(d.Waits.P99))
	}
	matches := fmt.Sprintf("%s, %d teams of %d, %s", o.Match.Function, o.Match.Teams, o.Match.TeamSize, o.Assigner.Kind)
	if o.Director == matchmaking.DirectorUser {
		matches = "of its user's director"
	}
	_, err = fmt.Fprintf(w,
		"queue     %s\nmatches   %s\nwaiting   %d, the oldest for %s\npending   %d\noutgoing  %d\n"+
			"rate      %.3g matches a second\nwaits     %s\n\n",
		d.Name, matches, d.Tickets.Searching, ms(d.OldestWaitMillis), d.Tickets.Pending, d.Outgoing, d.MatchRate, waits)
	if err != nil {
		return err
	}
	err = cli.WriteTable(w, cli.Row("MATCHED\tCANCELLED\tEXPIRED\tCONFLICTS\n%d\t%d\t%d\t%d\n",
		d.Tickets.MatchFound, d.Tickets.Cancelled, d.Tickets.Expired, d.Conflicts))
	if err != nil || d.Waiting == nil || d.Waiting.Examined == 0 {
		return err
	}
	return writeWaiting(w, *d.Waiting)
}

// writeWaiting writes which tickets wait long, and why. Names are quoted: a ticket's creator chooses them.
func writeWaiting(w io.Writer, d client.Waiting) error {
	if _, err := fmt.Fprintf(w, "\n%d of %d waiting tickets examined\n\n", d.Examined, d.Tickets); err != nil {
		return err
	}
	rows := "STATISTIC\tFROM\tTO\tTICKETS\tP50\tP90\tP99\tLONGEST\n" + waitRow("", "", "", d.Examined, d.Waits)
	for _, s := range d.Statistics {
		for _, r := range s.Ranges {
			rows += waitRow(strconv.Quote(s.Name), fmt.Sprint(r.MinValue), fmt.Sprint(r.MaxValue), r.Tickets, r.Waits)
		}
	}
	if err := cli.WriteTable(w, rows+"\n"); err != nil {
		return err
	}
	rows = "TICKET\tWAIT\tPLAYERS\tOTHERS\tACCEPTS\tACCEPTED BY\tCANDIDATES\n"
	for _, t := range d.Longest {
		rows += cli.Row("%s\t%s\t%d", t.ID, ms(t.WaitMillis), t.Players)
		if a := t.Acceptance; a != nil {
			rows += cli.Row("\t%d\t%d\t%d\t%d\n", a.Others, a.Accepts, a.AcceptedBy, a.Candidates)
		} else {
			rows += strings.Repeat("\t-", 4) + "\n"
		}
	}
	return cli.WriteTable(w, rows)
}

func waitRow(name, from, to string, tickets int, waits client.LongestWaits) string {
	return cli.Row("%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", name, from, to, tickets, ms(waits.P50), ms(waits.P90),
		ms(waits.P99), ms(waits.Max))
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
