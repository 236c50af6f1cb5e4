package commands

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newChannelList(t cli.Terminal) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List channels, with their clocks and numbers of subscribers",
		Long: `List channels whose names begin with PREFIX, or all; those of tickets are in the table only with a PREFIX. The service
reads them from Redis in small steps: of many keys that takes a while, and little from others. Channels are in no order,
and one can be listed twice.`,
		Args: cli.Arguments(0, 1),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON for each channel, as in ChannelList")
	cmd.Flags().IntVar(&limit, "limit", 1000, "how many channels to list at most; 0: all")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		prefix, listed, ofTickets := "", 0, 0
		if len(args) > 0 {
			prefix = args[0]
		}
		channels := list{to: t.Stdout, asJSON: asJSON, rows: "CHANNEL\tCLOCK\tSUBSCRIBERS\tLIVES\n"}
		for channel, err := range c.Channels(ctx, prefix) {
			if err != nil {
				return err
			}
			if prefix == "" && !asJSON && strings.HasPrefix(string(channel.Channel), matchmaking.ChannelPrefix) {
				ofTickets++
				continue
			}
			if limit > 0 && listed == limit {
				t.Report("there are more channels than --limit, %d", limit)
				break
			}
			listed++
			ttl := time.Duration(channel.TTLMillis) * time.Millisecond
			if err := channels.add(channel, "%s\t%s\t%d\t%s\n", channel.Channel, channel.Clock, channel.SubscriberCount,
				ttl.Round(time.Second)); err != nil {
				return err
			}
		}
		if ofTickets > 0 {
			t.Report("the channels of tickets are left out (%d); tidemark channel list %s lists them", ofTickets,
				matchmaking.ChannelPrefix)
		}
		return channels.end()
	})
	return cmd
}

func newChannelConnected(t cli.Terminal) *cobra.Command {
	var asJSON bool
	var page client.Page
	cmd := &cobra.Command{
		Use:        "connected CHANNEL",
		SuggestFor: []string{"waiting", "connections", "clients", "who"},
		Short:      "Show who waits for a channel's messages now",
		Long: `Show who waits for a channel's messages now: the subscribers with a long poll, a stream of server-sent events or a
subscription of a WebSocket at the server that answers, and since when. Other servers on the same Redis have their own.
Redis isn't asked.`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cli.CompleteArguments(cmd, 1, connection.Channels)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: Connected")
	cmd.Flags().IntVar(&page.Limit, "limit", 100, "how many subscribers to show, at most 1000")
	cmd.Flags().StringVar(&page.Cursor, "cursor", "", "`CURSOR` continue from the cursor that the previous answer printed")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		found, err := c.Connected(ctx, args[0], page)
		switch {
		case err != nil:
			return err
		case asJSON:
			return cli.WriteLine(t.Stdout, found)
		}
		return writeConnected(t, found)
	})
	return cmd
}

func writeConnected(t cli.Terminal, c client.Connected) error {
	if c.Polls+c.Streams+c.Sockets == 0 {
		_, err := fmt.Fprintln(t.Stdout, "no connections at this server")
		return err
	}
	_, err := fmt.Fprintf(t.Stdout, "polls %d, streams %d, sockets %d; of them without a subscriber: %d\n\n", c.Polls,
		c.Streams, c.Sockets, c.Tails)
	if err != nil {
		return err
	}
	rows := "SUBSCRIBER\tPOLLS\tSTREAMS\tSOCKETS\tSINCE\n"
	for _, s := range c.Subscribers {
		rows += cli.Row("%s\t%d\t%d\t%d\t%s ago\n", s.Name, s.Polls, s.Streams, s.Sockets, ago(s.Since))
	}
	if len(c.Subscribers) > 0 {
		if err := cli.WriteTable(t.Stdout, rows); err != nil {
			return err
		}
	}
	if c.Cursor != "" {
		t.Report("there are more subscribers; continue with --cursor %s", c.Cursor)
	}
	return nil
}

func newChannelPeek(t cli.Terminal) *cobra.Command {
	var asJSON bool
	var after string
	var o client.PeekOptions
	cmd := &cobra.Command{
		Use:   "peek CHANNEL",
		Short: "Print messages of a channel without a subscriber",
		Long: `Print messages of a channel without a subscriber, the oldest first, each as one line of JSON. It changes
nothing.`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cli.CompleteArguments(cmd, 1, connection.Channels)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: Peeked")
	cmd.Flags().StringVar(&after, "after", "", "`CLOCK` begin after this clock (default: with the oldest message)")
	cmd.Flags().IntVar(&o.Max, "max", 10, "how many messages to print at most")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		if after != "" {
			at, err := clock.Parse(after)
			if err != nil {
				return cli.Usagef("--after: %q isn't a clock", after)
			}
			o.After = &at
		}
		p, err := c.Peek(ctx, args[0], o)
		if err != nil {
			return err
		}
		if asJSON {
			return cli.WriteLine(t.Stdout, p)
		}
		for _, m := range p.Messages {
			if err := cli.WriteLine(t.Stdout, m); err != nil {
				return err
			}
		}
		if p.More {
			t.Report("there are more messages; continue with --after %s", p.Through)
		}
		return nil
	})
	return cmd
}

func newChannelPurge(t cli.Terminal) *cobra.Command {
	var asJSON bool
	var through string
	cmd := &cobra.Command{
		Use:        "purge CHANNEL",
		SuggestFor: []string{"clear", "empty", "flush", "truncate"},
		Short:      "Remove the messages of a channel",
		Long: `Remove the messages of a channel up to a clock, or all that there are when the command begins. Subscribers
stay where they are, and are told how many messages were purged before they read them. Message IDs are remembered: a
publish that is repeated stays a duplicate.`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddAdministration(cmd, t, 30*time.Second)
	confirmation := cli.AddConfirmation(cmd, t)
	cli.CompleteArguments(cmd, 1, connection.Channels)
	cmd.Flags().BoolVar(&asJSON, cli.JSONFlag, false, "print a line of JSON: Purged")
	cmd.Flags().StringVar(&through, "through", "latest", "`CLOCK` the clock of the last message to remove, or latest")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		now, err := c.Peek(ctx, args[0], client.PeekOptions{Max: 1})
		if err != nil {
			return err
		}
		if through != "latest" {
			if now.Clock, err = clock.Parse(through); err != nil {
				return cli.Usagef("--through: %q is neither latest nor a clock", through)
			}
		}
		if err := confirmation.Ask(ctx, "Remove the messages of %s up to clock %s?", args[0], now.Clock); err != nil {
			return err
		}
		p, err := c.Purge(ctx, args[0], client.After(now.Clock), now.Epoch)
		if err != nil {
			return err
		}
		if asJSON {
			return cli.WriteLine(t.Stdout, p)
		}
		t.Report("removed %d messages up to clock %s", p.Purged, p.Through)
		return nil
	})
	return cmd
}

func newChannelClose(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "close CHANNEL",
		SuggestFor: []string{"end", "finish"},
		Short:      "Close a channel: it gets no further messages",
		Long: `Close a channel: it gets no further messages. What it has can still be read, and readers are told the end once they
have everything. To close it again changes nothing. It can't be opened again, only deleted.`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.CompleteArguments(cmd, 1, connection.Channels)
	connection.HandleQuietly("Closed", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		return c.CloseChannel(ctx, args[0], nil)
	})
	return cmd
}

func newChannelDelete(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "delete CHANNEL",
		SuggestFor: []string{"remove"},
		Short:      "Delete a channel with its messages and subscribers",
		Long: `Delete a channel with its messages and subscribers. Those that wait for its messages get an error. It also
succeeds if the channel does not exist. The next publish or subscribe creates it again.`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddAdministration(cmd, t, 30*time.Second)
	confirmation := cli.AddConfirmation(cmd, t)
	cli.CompleteArguments(cmd, 1, connection.Channels)
	connection.HandleQuietly("channel", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		if err := confirmation.Ask(ctx, "Delete the channel %s with its messages and subscribers?", args[0]); err != nil {
			return nil, err
		}
		return map[string]string{"channel": args[0]}, c.DeleteChannel(ctx, args[0])
	})
	return cmd
}
