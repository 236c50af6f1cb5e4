package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/cli"
	"github.com/tidemark-dev/tidemark/internal/config"
)

type ticketFlags struct {
	*cli.Connection
	ticket client.NewTicket

	doubles, texts, criteria, statistics []string
	extensions                           string

	waits bool
	wait  time.Duration // 0: without end
	keep  bool
}

func newTicketCreate(t cli.Terminal) *cobra.Command {
	var f ticketFlags
	cmd := &cobra.Command{
		Use:        "create",
		SuggestFor: []string{"new", "add", "put"},
		Short:      "Make a ticket, and perhaps wait for its match",
		Long: `Make a ticket and print it as one line of JSON. With --wait, print its assignment as another one when it comes.

A ticket whose assignment didn't come in time, or that was waited for until SIGINT or SIGTERM, is cancelled, unless
there is --keep.`,
		Example: `  tidemark ticket create --queue duel --wait
  tidemark ticket create --queue ranked --statistic skill=1200 --criterion skill=1000..1500 --wait 2m
  tidemark ticket create --id ann-17 --tag eu --double level=12 --string map=harbor`,
		Args: cli.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.waits = cmd.Flags().Changed("wait")
			if err := f.readWait(args); err != nil {
				return err
			}
			return f.run(cmd.Context(), t)
		},
	}
	f.Connection = cli.AddConnection(cmd, t, 30*time.Second)
	flags := cmd.Flags()
	flags.StringVar(&f.ticket.Queue, "queue", "", "the `QUEUE` to wait in (default: the queue \"default\")")
	flags.StringVar(&f.ticket.ID, "id", "", "the ticket's `ID`; the same ID is one ticket (default: one is made)")
	flags.StringArrayVar(&f.ticket.SearchFields.Tags, "tag", nil, "a `TAG`; may be repeated, as may be the next four")
	flags.StringArrayVar(&f.doubles, "double", nil, "a number for the queue's pools, `NAME=NUMBER`")
	flags.StringArrayVar(&f.texts, "string", nil, "a text for the queue's pools, `NAME=TEXT`")
	flags.StringArrayVar(&f.criteria, "criterion", nil, "which others to accept, by their statistics, `NAME=MIN..MAX`")
	flags.StringArrayVar(&f.statistics, "statistic", nil, "what criteria of others look at, `NAME=NUMBER`")
	flags.IntVar(&f.ticket.NumTeams, "num-teams", 0, "teams in the match, `N` (default: the queue's)")
	flags.IntVar(&f.ticket.TeamSize, "team-size", 0, "tickets in a team, `N` (default: the queue's)")
	flags.DurationVar(&f.ticket.TTL, "ttl", 0, "how long it can be matched (default: as the queue has it)")
	flags.StringVar(&f.extensions, "extensions", "", "a `JSON` object of the caller's own")
	flags.DurationVar(&f.wait, "wait", 0, "wait for the assignment; with a `DURATION`, at most so long")
	flags.Lookup("wait").NoOptDefVal = "0s"
	flags.BoolVar(&f.keep, "keep", false, "don't cancel the ticket when waiting for it ends")
	return cmd
}

// readWait reads the duration of `--wait 30s`, which the flag itself leaves behind, since its value is optional.
func (f *ticketFlags) readWait(args []string) (err error) {
	if len(args) == 0 {
		return nil
	}
	if !f.waits || f.wait != 0 {
		return cli.Usagef("there is an argument too many: %q; see tidemark ticket create --help", args[0])
	}
	if f.wait, err = config.ParseDuration(args[0], time.Millisecond); err != nil {
		return cli.Usagef("--wait: %w", err)
	}
	return nil
}

func (f *ticketFlags) run(ctx context.Context, t cli.Terminal) error {
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
	if err := cli.WriteLine(t.Stdout, created); err != nil || !f.waits {
		return err
	}
	assignment, err := f.await(ctx, c, created.ID)
	if err != nil && !f.keep && !errors.Is(err, client.ErrTicketCancelled) && !errors.Is(err, client.ErrTicketExpired) {
		assignment, err = f.giveUp(ctx, c, t, created.ID, err)
	}
	if err != nil {
		return err
	}
	return cli.WriteLine(t.Stdout, assignment)
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
		err = fmt.Errorf("there was no match within %s", f.wait)
	}
	return assignment, err
}

// giveUp cancels a ticket that nobody waits for any more, and gives why, or its assignment where that was first.
func (f *ticketFlags) giveUp(ctx context.Context, c *client.Client, t cli.Terminal, id string, why error) (client.Assignment, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	err := c.CancelTicket(ctx, id)
	switch {
	case errors.Is(err, client.ErrTicketMatched):
		return c.AwaitAssignment(ctx, id)
	case err != nil:
		return client.Assignment{}, errors.Join(why, err)
	}
	t.Report("ticket %s is cancelled", id)
	return client.Assignment{}, why
}
