package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// NewKinds returns the command that lists the kinds of records. Its parent also has a command that needs Redis.
func NewKinds(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "kinds",
		Short: "Show the kinds of keys of records",
		Args:  cli.Arguments(0, 0),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each kind, as in Kinds")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		kinds, err := records.New(c).Kinds(ctx)
		if err != nil {
			return err
		}
		rows := "KIND\tKEY\tTYPE\tTTL\tREDIS\n"
		for _, k := range kinds {
			if asJSON {
				if err := cli.WriteLine(t.Stdout, k); err != nil {
					return err
				}
				continue
			}
			ttl := "permanent"
			if k.TTL > 0 {
				ttl = time.Duration(k.TTL).String()
			}
			rows += fmt.Sprintf("%s\t%s\t%s\t%s\t%s\n", k.Name, k.Pattern, k.Type, ttl, k.Redis)
		}
		if asJSON {
			return nil
		}
		return cli.WriteTable(t.Stdout, rows)
	})
	return cmd
}
