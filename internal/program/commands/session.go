package commands

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newSession(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("session", "Revoke sessions of users", newSessionRevoke(t))
}

func newSessionRevoke(t cli.Terminal) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:        "revoke USER (SESSION | --all)",
		SuggestFor: []string{"delete", "remove"},
		Short:      "End a session of a user, or all of them",
		Long: `End a session of a user, or all of them. SESSION is its ID, which "tidemark api GET /v1/users/USER/sessions"
prints.

Within a second no server accepts the token any more, and requests that wait with it end.`,
		Args: cli.Arguments(1, 2),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&all, "all", false, "end all sessions of the user")
	connection.HandleQuietly("userId, and the id if it is one session", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		switch {
		case all == (len(args) == 2):
			return nil, cli.Usagef("give either SESSION or --all")
		case all:
			return map[string]string{"userId": args[0]}, records.New(c).RevokeSessions(ctx, args[0])
		case strings.Contains(args[1], "_") || strings.Contains(args[1], "."):
			return nil, cli.Usagef(
				"SESSION is the ID of the session, which GET /v1/users/%s/sessions lists: a token must not be an argument",
				args[0])
		}
		return map[string]string{"userId": args[0], "id": args[1]},
			records.New(c).RevokeSession(ctx, args[0], args[1])
	})
	return cmd
}
