package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newMatch(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("match", "Show matches", newMatchShow(t))
}

func newMatchShow(t cli.Terminal) *cobra.Command {
	var queue string
	cmd := &cobra.Command{
		Use:        "show ID",
		SuggestFor: []string{"describe"},
		Short:      "Print a match as JSON",
		Long: `Print a match that was assigned as JSON: its teams, its connection, and when it was assigned. It can be read for the
queue's assignmentTTL, but at least for a minute.`,
		Example: `  tidemark match show 01KAJ2M3V7Q8ZJ4R5T6Y7W8X9D.duel
  tidemark match show final-3 --queue cup`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.OnlyJSON(cmd, "Match")
	cmd.Flags().StringVar(&queue, "queue", "",
		"`QUEUE` queue of the match (default: the one that the ID names, if the service made it)")
	cli.CompleteFlag(cmd, "queue", connection.Queues)
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		match, err := c.Match(ctx, queue, args[0])
		if err != nil {
			return err
		}
		return cli.WriteLine(t.Stdout, match)
	})
	return cmd
}
