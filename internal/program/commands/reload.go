package commands

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newReload(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a service read its configuration file again",
		Long: `Make a service read its configuration file again, and print what has changed.

Options marked as reloadable in "tidemark serve --help" change at once; others are listed, since they need a restart. A file
with a fault changes nothing: all faults are printed. SIGHUP does the same. Each server on a Redis reloads by itself.`,
		Example: `  tidemark serve --check --config tidemark.yaml && tidemark reload
  tidemark reload --json`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: Reloaded")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		done, err := c.Reload(ctx)
		switch {
		case err != nil:
			return err
		case asJSON:
			return cli.WriteLine(t.Stdout, done)
		}
		return writeReloaded(t, done)
	})
	return cmd
}

func writeReloaded(t cli.Terminal, done client.Reloaded) error {
	var b strings.Builder
	for _, change := range done.Changes {
		switch {
		case change.From == "":
			fmt.Fprintf(&b, "%s: now %s\n", change.Option, change.To)
		case change.To == "":
			fmt.Fprintf(&b, "%s: was %s, not set any more\n", change.Option, change.From)
		default:
			fmt.Fprintf(&b, "%s: was %s, now %s\n", change.Option, change.From, change.To)
		}
	}
	for _, option := range done.Restart {
		fmt.Fprintf(&b, "%s: changes after a restart\n", option)
	}
	if b.Len() == 0 {
		b.WriteString("nothing has changed\n")
	}
	_, err := fmt.Fprint(t.Stdout, b.String())
	return err
}
