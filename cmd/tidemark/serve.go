package main

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/cli"
	"github.com/tidemark-dev/tidemark/internal/config"
)

func newServe(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"start", "run", "server"},
		Short:      "Run the service",
		Args:       cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runService(cmd, t, func(b *logBuffer) error {
				c, err := config.Load(cmd.Flags(), t.Environ)
				if err != nil {
					return &cli.UsageError{Err: err}
				}
				return serve(cmd.Context(), c, b)
			})
		},
	}
	config.AddFlags(cmd.Flags())
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		if err := config.WriteHelp(t.Stdout, t.HelpWidth()); err != nil {
			t.Report("%v", err)
		}
	})
	return cmd
}
