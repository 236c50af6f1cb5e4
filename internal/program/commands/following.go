package commands

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newFollowing(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "following USER",
		Short: "Print the channels of notifications that a user follows, one per line",
		Args:  cli.Arguments(1, 1),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: Following")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		found, err := records.New(c).Following(ctx, args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return cli.WriteLine(t.Stdout, found)
		}
		if found.More {
			t.Report("%s follows more channels than these %d", args[0], len(found.Channels))
		}
		if len(found.Unknown) > 0 {
			t.Report("the cache doesn't have %s of %s", strings.Join(found.Unknown, ", "), args[0])
		}
		_, err = fmt.Fprintln(t.Stdout, strings.Join(found.Channels, "\n"))
		return err
	})
	return cmd
}
