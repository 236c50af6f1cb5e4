package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newTicket(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("ticket", "Create, show and cancel tickets", newTicketCreate(t), newTicketShow(t),
		newTicketCancel(t))
}

func newTicketShow(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "show ID",
		SuggestFor: []string{"describe", "get", "list"},
		Short:      "Print a ticket as JSON",
		Args:       cli.Arguments(1, 1),
	}
	cli.OnlyJSON(cmd, "Ticket")
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		ticket, err := c.Ticket(ctx, args[0])
		if err != nil {
			return err
		}
		return cli.WriteLine(t.Stdout, ticket)
	})
	return cmd
}

func newTicketCancel(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "cancel ID",
		SuggestFor: []string{"delete", "remove"},
		Short:      "Cancel a ticket",
		Long:       `Cancel a ticket. It also succeeds if the ticket does not exist, and fails if the ticket is in a match already.`,
		Args:       cli.Arguments(1, 1),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	connection.HandleQuietly("id", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		return map[string]string{"id": args[0]}, c.CancelTicket(ctx, args[0])
	})
	return cmd
}
