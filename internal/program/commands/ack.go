package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newAck(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ack CHANNEL SUBSCRIBER HANDLE",
		Short: "Acknowledge all messages up to a receipt handle",
		Long: `Acknowledge all messages up to a receipt handle that a fetch returned. Repeating it changes nothing. It prints the clock up to which the subscriber has acknowledged the channel then, which is beyond the
handle if something later was acknowledged before.

It is for handles of the HTTP API; "tidemark subscribe" acknowledges by itself.`,
		Args: cli.Arguments(3, 3),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.CompleteArguments(cmd, 1, connection.Channels)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: Subscription")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		channel, subscriber := args[0], args[1]
		if err := c.Ack(ctx, channel, subscriber, args[2]); err != nil {
			return err
		}
		// It exists: this moves nothing, and returns its mark.
		now, err := c.Subscribe(ctx, channel, subscriber, client.Latest)
		switch {
		case err != nil:
			return fmt.Errorf("it is acknowledged, but the mark can't be read: %w", err)
		case now.Created: // it was removed in between
			return errors.Join(errors.New("it is acknowledged, but the subscriber was removed since"),
				c.Unsubscribe(ctx, channel, subscriber))
		case asJSON:
			return cli.WriteLine(t.Stdout, now)
		}
		_, err = fmt.Fprintf(t.Stdout, "%s has acknowledged %s up to clock %s\n", subscriber, channel, now.Mark)
		return err
	})
	return cmd
}
