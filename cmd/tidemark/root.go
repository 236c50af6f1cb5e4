package main

import (
	"github.com/spf13/cobra"
)

func newRoot(t terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "Durable publish/subscribe channels over HTTP, kept in Redis",
		Long: `Durable publish/subscribe channels over HTTP, kept in Redis.

"tidemark serve" runs the service; all other commands are clients of one.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(t.stdin)
	root.SetOut(t.stdout)
	root.SetErr(t.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(
		newServe(t), newPublish(t), newSubscribe(t), newUnsubscribe(t), newAck(t), newChannel(t), newTicket(t), newQueue(t),
		newVersion(),
	)
	return root
}

// noSuchCommand is the argument check of commands that only have others below them.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("there is no command %q; see %s --help", args[0], cmd.CommandPath())
}

// arguments checks the number of positional arguments.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usagef("wrong number of arguments: it is %s; see %s --help", cmd.UseLine(), cmd.CommandPath())
		}
		return nil
	}
}
