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

func newState(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("state", "Store states of processes, for an hour at most", newStateSet(t), newStateShow(t),
		newStateDelete(t), cli.Renamed("get", "state show", newStateShow(t)))
}

func newStateSet(t cli.Terminal) *cobra.Command {
	var change records.StateChange
	var replace bool
	cmd := &cobra.Command{
		Use:     "set PROCESS ID [FIELD=VALUE...]",
		Short:   "Set fields of a state, and print it",
		Example: "  tidemark state set import 7 step=3 done=40%\n  tidemark state set import 7 --remove done --ttl 10m",
		Args:    cli.Arguments(2, 66),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.OnlyJSON(cmd, "State")
	cmd.Flags().StringArrayVar(&change.Remove, "remove", nil, "`FIELD` remove this field; may be repeated")
	cmd.Flags().BoolVar(&replace, "replace", false, "remove all other fields")
	cmd.Flags().DurationVar(&change.TTL, "ttl", time.Hour, "how long the state is kept, 1m to 1h")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		change.Fields = map[string]string{}
		for _, field := range args[2:] {
			name, value, ok := strings.Cut(field, "=")
			if !ok {
				return cli.Usagef("%q isn't FIELD=VALUE", field)
			}
			change.Fields[name] = value
		}
		call := records.New(c).PatchState
		if replace {
			call = records.New(c).PutState
		}
		state, err := call(ctx, args[0], args[1], change)
		if err != nil {
			return err
		}
		return cli.WriteLine(t.Stdout, state)
	})
	return cmd
}

func newStateShow(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{Use: "show PROCESS ID", Short: "Print a state", Args: cli.Arguments(2, 2)}
	cli.OnlyJSON(cmd, "State")
	cli.AddConnection(cmd, t, 5*time.Second).Handle(func(ctx context.Context, c *client.Client, args []string) error {
		state, err := records.New(c).State(ctx, args[0], args[1])
		if err != nil {
			return err
		}
		return cli.WriteLine(t.Stdout, state)
	})
	return cmd
}

func newStateDelete(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{Use: "delete PROCESS ID", Short: "Delete a state", Args: cli.Arguments(2, 2)}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	connection.HandleQuietly("process and id", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		return map[string]string{"process": args[0], "id": args[1]}, records.New(c).DeleteState(ctx, args[0], args[1])
	})
	return cmd
}
