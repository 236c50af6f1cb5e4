package main

import (
	"time"

	"github.com/spf13/cobra"
)

func newAck(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ack CHANNEL SUBSCRIBER HANDLE",
		Short: "Acknowledge everything up to a receipt handle",
		Long: `Acknowledge everything up to a receipt handle, which a fetch answered. Doing so again changes nothing.

It is for handles of the HTTP API; "tidemark subscribe" acknowledges by itself.`,
		Args: arguments(3, 3),
	}
	connection := addConnection(cmd, t, 5*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connection.open(t)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Ack(cmd.Context(), args[0], args[1], args[2])
	}
	return cmd
}
