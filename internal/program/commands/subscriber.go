package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newSubscriber(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("subscriber", "List and delete subscribers, and set their marks", newSubscriberList(t),
		newSubscriberSeek(t), newSubscriberDelete(t))
}

func newSubscriberList(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list CHANNEL",
		Short: "List all subscribers of a channel, with their marks and lags",
		Long: `List all subscribers of a channel, with their marks and lags: the messages after a mark. One can be listed
twice.`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cli.CompleteArguments(cmd, 1, connection.Channels)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON for each subscriber, as in Description")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		subscribers, page := list{to: t.Stdout, asJSON: asJSON, rows: subscriberTitles}, client.Page{}
		for more := true; more; more = page.Cursor != "" {
			d, err := c.DescribePage(ctx, args[0], page)
			if err != nil {
				return err
			}
			if err := subscribers.addSubscribers(d.Subscribers); err != nil {
				return err
			}
			page.Cursor = d.Cursor
		}
		return subscribers.end()
	})
	return cmd
}

func newSubscriberSeek(t cli.Terminal) *cobra.Command {
	var asJSON bool
	var to string
	cmd := &cobra.Command{
		Use:        "seek CHANNEL SUBSCRIBER",
		SuggestFor: []string{"move", "rewind", "skip", "set"},
		Short:      "Set the mark of a subscriber",
		Long: `Set the mark of a subscriber, so that it skips messages or gets them again. It is never set before the oldest
message. Streams continue at the mark. Stop the subscriber's consumers before you set it back: what they acknowledge
afterwards moves it on.`,
		Example: `  tidemark subscriber seek orders billing --to latest
  tidemark subscriber seek orders billing --to 10m
  tidemark subscriber seek orders billing --to 2026-01-31T12:00:00Z`,
		Args: cli.Arguments(2, 2),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	confirmation := cli.AddConfirmation(cmd, t)
	cli.CompleteArguments(cmd, 1, connection.Channels)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: Sought")
	cmd.Flags().StringVar(&to, "to", "",
		"`WHERE` latest, earliest, a clock, a time, or how long ago, as in 10m: messages since then are next (required)")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		where, err := parseTo(to, time.Now())
		if err != nil {
			return err
		}
		if err := confirmation.Ask(ctx, "Set the mark of %s on %s to %s?", args[1], args[0], to); err != nil {
			return err
		}
		s, err := c.Seek(ctx, args[0], args[1], where)
		if err != nil {
			return err
		}
		if asJSON {
			return cli.WriteLine(t.Stdout, s)
		}
		t.Report("the mark of %s is %s, with %d messages after it", s.Subscriber, s.Mark, s.Lag)
		return nil
	})
	return cmd
}

// parseTo parses where to set a mark.
func parseTo(text string, now time.Time) (client.To, error) {
	switch text {
	case "":
		return client.To{}, cli.Usagef("--to is missing")
	case "latest":
		return client.To{From: client.Latest}, nil
	case "earliest":
		return client.To{From: client.Earliest}, nil
	}
	if at, err := clock.Parse(text); err == nil {
		return client.To{From: client.After(at)}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return client.ToTime(now.Add(-ago)), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return client.To{}, cli.Usagef("--to: %q is neither latest, earliest, a clock, a duration such as 10m, nor a time "+
			"such as 2026-01-31T12:00:00Z", text)
	}
	return client.ToTime(at), nil
}

func newSubscriberDelete(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "delete CHANNEL SUBSCRIBER",
		SuggestFor: []string{"remove"},
		Short:      "Delete a subscriber and its mark",
		Long: `Delete a subscriber and its mark. Its waiting fetches get an error. It also succeeds if the subscriber does
not exist.`,
		Args: cli.Arguments(2, 2),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	confirmation := cli.AddConfirmation(cmd, t)
	cli.CompleteArguments(cmd, 1, connection.Channels)
	handle := func(ctx context.Context, c *client.Client, args []string) (any, error) {
		if err := confirmation.Ask(ctx, "Delete the subscriber %s of %s?", args[1], args[0]); err != nil {
			return nil, err
		}
		return map[string]string{"channel": args[0], "subscriber": args[1]}, c.Unsubscribe(ctx, args[0], args[1])
	}
	connection.HandleQuietly("channel and subscriber", handle)
	return cmd
}
