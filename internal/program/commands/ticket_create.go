package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
)

type ticketFlags struct {
	*cli.Connection
	terminal cli.Terminal
	ticket   client.NewTicket

	doubles, texts, criteria, statistics []string
	extensions                           string

	waits bool
	wait  time.Duration // 0: no limit
	keep  bool
}

func newTicketCreate(t cli.Terminal) *cobra.Command {
	f := ticketFlags{terminal: t}
	cmd := &cobra.Command{
		Use:        "create",
		SuggestFor: []string{"new", "add", "put"},
		Short:      "Create a ticket, and optionally wait for its match",
		Long: `Create a ticket and print it as one line of JSON. With --wait, print its assignment as another line when it arrives.

A ticket whose assignment doesn't arrive in time, or whose wait is ended by SIGINT or SIGTERM, is cancelled, unless
--keep is set.`,
		Example: `  tidemark ticket create --queue duel --wait
  tidemark ticket create --queue ranked --statistic skill=1200 --criterion skill=1000..1500 --wait 2m
  tidemark ticket create --id ann-17 --tag eu --double level=12 --string map=harbor`,
		Args: cli.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.waits = cmd.Flags().Changed("wait")
			if err := f.readWait(args); err != nil {
				return err
			}
			return f.run(cmd.Context())
		},
	}
	f.Connection = cli.AddConnection(cmd, t, 30*time.Second)
	cli.OnlyJSON(cmd, "CreatedTicket, and with --wait Assignment on a line of its own")
	flags := cmd.Flags()
	flags.StringVar(&f.ticket.Queue, "queue", "", "`QUEUE` queue to wait in (default: the queue \"default\")")
	cli.CompleteFlag(cmd, "queue", f.Queues)
	flags.StringVar(&f.ticket.ID, "id", "", "`ID` the ticket's ID, under which it is created once (default: a new ID)")
	flags.StringArrayVar(&f.ticket.SearchFields.Tags, "tag", nil,
		"`TAG` one of its tags; may be repeated, like --double, --string, --criterion and --statistic")
	flags.StringArrayVar(&f.doubles, "double", nil, "`NAME=NUMBER` a number for the queue's pools")
	flags.StringArrayVar(&f.texts, "string", nil, "`NAME=TEXT` a text for the queue's pools")
	flags.StringArrayVar(&f.criteria, "criterion", nil,
		"`NAME=MIN..MAX` accept only tickets with this statistic in a range")
	flags.StringArrayVar(&f.statistics, "statistic", nil,
		"`NAME=NUMBER` a statistic, for the criteria of other tickets")
	flags.IntVar(&f.ticket.NumTeams, "num-teams", 0, "`N` teams in the match (default: the queue's)")
	flags.IntVar(&f.ticket.TeamSize, "team-size", 0, "`N` players in a team (default: the queue's)")
	flags.IntVar(&f.ticket.Players, "players", 0, "`N` players that the ticket stands for, a party (default: 1)")
	flags.DurationVar(&f.ticket.TTL, "ttl", 0, "how long the ticket can be matched (default: the queue's)")
	flags.StringVar(&f.extensions, "extensions", "", "`JSON` an object of your own, which is stored with the ticket")
	flags.DurationVar(&f.wait, "wait", 0, "`DURATION` wait for the assignment, for at most this time if it is given")
	flags.Lookup("wait").NoOptDefVal = "0s"
	flags.BoolVar(&f.keep, "keep", false, "don't cancel the ticket when the wait ends")
	return cmd
}

// readWait reads the duration of `--wait 30s`. The value of the flag is optional, so that the duration is an argument.
func (f *ticketFlags) readWait(args []string) (err error) {
	if len(args) == 0 {
		return nil
	}
	if !f.waits || f.wait != 0 {
		return cli.Usagef("too many arguments: %q; see tidemark ticket create --help", args[0])
	}
	if f.wait, err = config.ParseDuration(args[0], time.Millisecond); err != nil {
		return cli.Usagef("--wait: %w", err)
	}
	return nil
}

func (f *ticketFlags) run(ctx context.Context) error {
	if err := f.complete(); err != nil {
		return err
	}
	c, err := f.Open()
	if err != nil {
		return err
	}
	defer c.Close()
	created, err := c.CreateTicket(ctx, f.ticket)
	if err != nil {
		return err
	}
	if err := cli.WriteLine(f.terminal.Stdout, created); err != nil || !f.waits {
		return err
	}
	assignment, err := f.await(ctx, c, created.ID)
	if err != nil && !f.keep && !errors.Is(err, client.ErrTicketCancelled) && !errors.Is(err, client.ErrTicketExpired) {
		assignment, err = f.giveUp(ctx, c, created.ID, err)
	}
	if err != nil {
		return err
	}
	return cli.WriteLine(f.terminal.Stdout, assignment)
}

// await waits for the assignment.
func (f *ticketFlags) await(ctx context.Context, c *client.Client, id string) (client.Assignment, error) {
	if f.wait == 0 {
		return c.AwaitAssignment(ctx, id)
	}
	limited, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	assignment, err := c.AwaitAssignment(limited, id)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no match within %s", f.wait)
	}
	return assignment, err
}

// giveUp cancels a ticket when the wait has ended, and returns the reason, or its assignment if that was first.
func (f *ticketFlags) giveUp(ctx context.Context, c *client.Client, id string, why error) (client.Assignment, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	err := c.CancelTicket(ctx, id)
	switch {
	case errors.Is(err, client.ErrTicketMatched):
		return c.AwaitAssignment(ctx, id)
	case err != nil:
		return client.Assignment{}, errors.Join(why, err)
	}
	f.terminal.Report("ticket %s is cancelled", id)
	return client.Assignment{}, why
}
