package main

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/config"
)

func newServe(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"start", "run", "server"},
		Short:      "Run the service",
		Args:       arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(cmd.Flags(), t.environ)
			if err != nil {
				return &usageError{err}
			}
			return serve(cmd.Context(), c, newLogger(t.stderr, c))
		},
	}
	config.AddFlags(cmd.Flags())
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		if err := config.WriteHelp(t.stdout); err != nil {
			t.tell("%v", err)
		}
	})
	return cmd
}

func newLogger(w io.Writer, c config.Config) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
