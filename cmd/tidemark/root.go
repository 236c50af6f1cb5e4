package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/internal/suggest"
)

func newRoot(t terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "Durable publish/subscribe channels over HTTP, kept in Redis",
		Long: `Durable publish/subscribe channels over HTTP, kept in Redis.

"tidemark serve" runs the service; all other commands are clients of one.`,
		Version:       thisBuild().version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate(versionText())
	root.SetHelpCommand(newHelp())
	root.SetIn(t.stdin)
	root.SetOut(t.stdout)
	root.SetErr(t.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w%s; see %s --help", err, unknownFlag(cmd, err), cmd.CommandPath())
	})
	root.AddCommand(
		newServe(t), newPublish(t), newSubscribe(t), newUnsubscribe(t), newAck(t), newChannel(t), newTicket(t), newQueue(t),
		newVersion(),
	)
	return root
}

// newHelp makes the command "help", which fails for a command that does not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print what a command does and its flags",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = noSuchCommand(about, rest)
			}
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag() // it is part of the help
			return about.Help()
		},
	}
}

// noSuchCommand is the argument check of commands that only have others below them.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2 // the distance that cobra itself uses
	}
	return usagef("there is no command %q%s; see %s --help", args[0], suggest.Hint(cmd.SuggestionsFor(args[0])), cmd.CommandPath())
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

// unknownFlag returns a hint at the flags of cmd, where err is about one that it does not have.
func unknownFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	meant := suggest.Near(unknown.GetSpecifiedName(), names)
	for i := range meant {
		meant[i] = "--" + meant[i]
	}
	return suggest.Hint(meant)
}
