package commands

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

func newRefused(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "refused",
		SuggestFor: []string{"access", "limited", "refusals"},
		Short:      "List the clients that a server has refused recently, and why",
		Long: `List the clients that the server that answers has refused recently: those beyond a limit within the last
minute, and those whose credentials are missing, not valid, or don't grant what they have requested. Of each the last
200 are listed, the last one first. Repeated refusals are one line. Credentials are never shown.`,
		Args: cli.Arguments(0, 0),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: RecentAccess")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		var found wire.RecentAccess
		_, err := c.Do(ctx, client.Call{What: "list the refused clients", Method: http.MethodGet,
			Path: []string{"access"}}, &found)
		switch {
		case err != nil:
			return err
		case asJSON:
			return cli.WriteLine(t.Stdout, found)
		}
		return writeRefused(t, found)
	})
	return cmd
}

func writeRefused(t cli.Terminal, found wire.RecentAccess) error {
	limited := "LIMITED\tLIMIT\tTIMES\tLAST\n"
	for _, l := range found.Limited {
		limited += cli.Row("%s\t%s=%s of the %s\t%d\t%s ago\n", l.Client, l.Limit, l.Value, l.Of, l.Refusals.Count,
			ago(l.Refusals.Last))
	}
	refused := "REFUSED\tTAKEN FOR\tREQUEST\tWHY\tTIMES\tLAST\n"
	for _, r := range found.Refused {
		refused += cli.Row("%s\t%s\t%s %s\t%s\t%d\t%s ago\n", r.Client, r.Principal, r.Method, oneLine(r.Path), r.Reason,
			r.Refusals.Count, ago(r.Refusals.Last))
	}
	var failed error
	if len(found.Limited) > 0 {
		failed = cli.WriteTable(t.Stdout, limited)
	}
	if len(found.Refused) > 0 {
		failed = errors.Join(failed, cli.WriteTable(t.Stdout, refused))
	}
	if len(found.Limited)+len(found.Refused) == 0 {
		_, failed = fmt.Fprintln(t.Stdout, "no client was refused recently")
	}
	return failed
}
