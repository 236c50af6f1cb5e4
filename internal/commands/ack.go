package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/cli"
)

func newAck(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ack CHANNEL SUBSCRIBER HANDLE",
		Short: "Acknowledge all messages up to a receipt handle",
		Long: `Acknowledge all messages up to a receipt handle that a fetch returned. Repeating it changes nothing.

It is for handles of the HTTP API; "tidemark subscribe" acknowledges by itself.`,
		Args: cli.Arguments(3, 3),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		return c.Ack(ctx, args[0], args[1], args[2])
	})
	return cmd
}
