package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newUnsubscribe(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unsubscribe CHANNEL SUBSCRIBER",
		Short: "Remove a subscriber",
		Long:  `Remove a subscriber and its mark. It also succeeds if the subscriber does not exist.`,
		Args:  cli.Arguments(2, 2),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.CompleteArguments(cmd, 1, connection.Channels)
	connection.HandleQuietly("channel and subscriber", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		return map[string]string{"channel": args[0], "subscriber": args[1]}, c.Unsubscribe(ctx, args[0], args[1])
	})
	return cmd
}
