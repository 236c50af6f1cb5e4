package main

import (
	"time"

	"github.com/spf13/cobra"
)

func newTicket(t terminal) *cobra.Command {
	cmd := newGroup("ticket", "Ask for matches")
	cmd.AddCommand(newTicketCreate(t), newTicketShow(t), newTicketCancel(t))
	return cmd
}

// newGroup makes a command that only has others below it.
func newGroup(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("say what to do; see %s --help", cmd.CommandPath())
		},
	}
}

func newTicketShow(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "show ID",
		SuggestFor: []string{"describe", "get", "list"},
		Short:      "Print a ticket as JSON",
		Args:       arguments(1, 1),
	}
	connection := addConnection(cmd, t, 5*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connection.open(t)
		if err != nil {
			return err
		}
		defer c.Close()
		ticket, err := c.Ticket(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return writeLine(t.stdout, ticket)
	}
	return cmd
}

func newTicketCancel(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "cancel ID",
		SuggestFor: []string{"delete", "remove"},
		Short:      "Take a ticket out of its queue",
		Long:       `Take a ticket out of its queue. It succeeds too where there was none, and fails where it is in a match already.`,
		Args:       arguments(1, 1),
	}
	connection := addConnection(cmd, t, 5*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connection.open(t)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.CancelTicket(cmd.Context(), args[0])
	}
	return cmd
}
