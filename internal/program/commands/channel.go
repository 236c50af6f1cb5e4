package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newChannel(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("channel", "List, show, close, purge and delete channels", newChannelList(t), newChannelShow(t),
		newChannelConnected(t), newChannelPeek(t), newChannelClose(t), newChannelPurge(t), newChannelDelete(t))
}

func newChannelShow(t cli.Terminal) *cobra.Command {
	var asJSON bool
	var page client.Page
	cmd := &cobra.Command{
		Use:        "show CHANNEL",
		SuggestFor: []string{"describe", "get", "view"},
		Short:      "Show a channel's clock, and the lag of its subscribers",
		Long: `Show a channel's clock, and the lag of its subscribers: the messages after a subscriber's mark.

Without activity a channel lives as long as its messages, and up to a tenth longer.`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	connection.OrAdministration()
	cli.CompleteArguments(cmd, 1, connection.Channels)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON: Description")
	cmd.Flags().IntVar(&page.Limit, "limit", 100, "about how many subscribers to show, at most 250")
	cmd.Flags().StringVar(&page.Cursor, "cursor", "", "`CURSOR` continue from the cursor that the previous answer printed")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		d, err := c.DescribePage(ctx, args[0], page)
		if err != nil {
			return err
		}
		if asJSON {
			return cli.WriteLine(t.Stdout, d)
		}
		return writeDescription(t.Stdout, d)
	})
	return cmd
}

// writeDescription writes a channel for people to read.
func writeDescription(w io.Writer, d client.Description) error {
	oldest := "none: all messages have expired, or none was published"
	if d.Oldest != nil {
		oldest = fmt.Sprintf("%s; messages kept: %d", *d.Oldest, d.Live)
	}
	ttl, properties := time.Duration(d.TTLMillis)*time.Millisecond, ""
	if d.ContentType != "" {
		properties += fmt.Sprintf("content  only %s\n", d.ContentType)
	}
	if d.TTL != "" {
		properties += fmt.Sprintf("ttl      %s, of its own\n", d.TTL)
	}
	if !d.Ends.IsZero() {
		properties += fmt.Sprintf("ends     at the latest %s\n", d.Ends.Format(time.RFC3339))
	}
	if d.Closed {
		properties += "closed   no further messages can be published\n"
	}
	_, err := fmt.Fprintf(w, "channel  %s\nclock    %s\noldest   %s\nepoch    %s\nexpires  in %s without activity\n%s\n",
		d.Channel, d.Clock, oldest, d.Epoch, ttl.Round(time.Second), properties)
	if err != nil {
		return err
	}
	if d.SubscriberCount == 0 {
		_, err := fmt.Fprintln(w, "no subscribers")
		return err
	}
	subscribers := list{to: w, rows: subscriberTitles}
	if err := errors.Join(subscribers.addSubscribers(d.Subscribers), subscribers.end()); err != nil || d.Cursor == "" {
		return err
	}
	_, err = fmt.Fprintf(w, "\nabout %d subscribers in total; continue with --cursor %s\n", d.SubscriberCount, d.Cursor)
	return err
}
