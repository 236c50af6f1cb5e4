package main

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"
)

func newServe(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"start", "run", "server"},
		Short:      "Run the service",
		Args:       arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags(), t.environ)
			if err != nil {
				return &usageError{err}
			}
			return serve(cmd.Context(), c, newLogger(t.stderr, c))
		},
	}
	addFlags(cmd.Flags())
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		if err := writeServeHelp(t.stdout); err != nil {
			t.tell("%v", err)
		}
	})
	return cmd
}

func newLogger(w io.Writer, c config) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
