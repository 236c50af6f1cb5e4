package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newDrain(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "drain",
		SuggestFor: []string{"cordon", "pause", "stop"},
		Short:      "Send the clients of a server to other servers",
		Long: `Send the clients of a server to other servers, until "tidemark resume" or its next start.

Its readiness fails, so that load balancers leave it; fetches that wait return, streams and WebSockets end, and each
connection is closed after its next answer. The server goes on: it serves who comes, but a fetch waits for a second at
most, a stream ends at once, and WebSockets are refused. It keeps its leases, such as that of a queue. Without another
server, clients find none that is ready.`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	confirmation := cli.AddConfirmation(cmd, t)
	connection.HandleQuietly("Drained", func(ctx context.Context, c *client.Client, _ []string) (any, error) {
		if err := confirmation.Ask(ctx, "Send the clients of this server to other servers?"); err != nil {
			return nil, err
		}
		return client.Drained{Draining: true}, c.Drain(ctx)
	})
	return cmd
}

func newResume(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "resume",
		SuggestFor: []string{"uncordon", "undrain"},
		Short:      "Make a server that was drained take clients again",
		Long:       `Make a server that "tidemark drain" has drained ready again. It succeeds if it wasn't drained.`,
		Args:       cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	connection.HandleQuietly("Drained", func(ctx context.Context, c *client.Client, _ []string) (any, error) {
		return client.Drained{}, c.Resume(ctx)
	})
	return cmd
}
