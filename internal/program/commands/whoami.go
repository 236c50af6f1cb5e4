package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

func newWhoami(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "whoami",
		SuggestFor: []string{"who", "grants", "rights"},
		Short:      "Show what a credential may do",
		Long: `Show what the credential of this command may do: whose it is, its actions, its grants, its limits and its end.
Rules of channels can allow more. On an open service everybody may do everything.`,
		Example: `  tidemark whoami --token-file shop.key`,
		Args:    cli.Arguments(0, 0),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	connection.OrAdministration()
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: Whoami")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		var who wire.Whoami
		_, err := c.Do(ctx, client.Call{What: "show what the credential may do", Method: http.MethodGet,
			Path: []string{"whoami"}}, &who)
		switch {
		case err != nil:
			return err
		case asJSON:
			return cli.WriteLine(t.Stdout, who)
		}
		return writeWhoami(t, who)
	})
	return cmd
}

func writeWhoami(t cli.Terminal, who wire.Whoami) error {
	expires := "never"
	if !who.Expires.IsZero() {
		expires = who.Expires.UTC().Format(time.RFC3339)
	}
	rows := cli.Row("kind\t%s\nprincipal\t%s\nname\t%s\nactions\t%s\nlimits\t%s\nexpires\t%s\n", who.Kind,
		cmp.Or(who.Principal, "none"), cmp.Or(who.Name, "none"), cmp.Or(strings.Join(who.Actions, " "), "none"), cmp.Or(who.Limits, "none"), expires)
	var grants []json.RawMessage
	if err := json.Unmarshal(who.Grants, &grants); err != nil {
		return fmt.Errorf("the grants of the credential: %w", err)
	}
	for _, g := range grants {
		rows += cli.Row("grant\t%s\n", strings.ReplaceAll(string(g), "\t", " "))
	}
	return cli.WriteTable(t.Stdout, rows)
}
