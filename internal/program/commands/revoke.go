package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newRevoke(t cli.Terminal) *cobra.Command {
	var what client.NewRevocation
	var until string
	cmd := &cobra.Command{
		Use:   "revoke",
		Short: "Revoke a token, or all tokens and sessions of a user",
		Long: `Revoke a user's token, or all tokens and sessions of a user that were issued until now, and print the
revocation as JSON.

Within a second no server accepts the credentials any more, and requests that wait with them end. "tidemark key revoke" does the same
for an API key.`,
		Example: `  tidemark revoke --jti 01KAJ2M3V7Q8ZJ4R5T6Y7W8X9A --until 2h
  tidemark revoke --subject ann`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cli.OnlyJSON(cmd, "Revocation")
	cmd.Flags().StringVar(&what.JTI, "jti", "", "`JTI` the token with this ID")
	cmd.Flags().StringVar(&what.Subject, "subject", "",
		"`SUBJECT` all tokens and sessions of this subject that were issued before now")
	cmd.Flags().StringVar(&until, "until", "",
		"`WHEN` the time after which no such token is valid: a duration such as 90d or 12h, or a time, such as the token's exp (default: 30 days from now)")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) (err error) {
		if (what.JTI == "") == (what.Subject == "") {
			return cli.Usagef("give either --jti or --subject")
		}
		if what.Until, err = parseWhen(until, time.Now()); err != nil {
			return cli.Usagef("--until: %w", err)
		}
		done, err := c.Revoke(ctx, what)
		if err != nil {
			return err
		}
		return cli.WriteLine(t.Stdout, done)
	})
	return cmd
}
