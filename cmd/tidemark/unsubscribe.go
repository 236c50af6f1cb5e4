package main

import (
	"time"

	"github.com/spf13/cobra"
)

func newUnsubscribe(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unsubscribe CHANNEL SUBSCRIBER",
		Short: "Remove a subscriber",
		Long:  `Remove a subscriber and its mark. It succeeds too where there was none.`,
		Args:  arguments(2, 2),
	}
	connection := addConnection(cmd, t, 5*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connection.open(t)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Unsubscribe(cmd.Context(), args[0], args[1])
	}
	return cmd
}
