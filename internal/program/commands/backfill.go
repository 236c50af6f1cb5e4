package commands

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newBackfill(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("backfill", "Create, change and acknowledge backfills", newBackfillCreate(t), newBackfillShow(t),
		newBackfillUpdate(t), newBackfillAcknowledge(t), newBackfillDelete(t))
}

// backfillFlags are the flags for the content of a backfill.
type backfillFlags struct {
	spec           client.BackfillSpec
	doubles, texts []string
	extensions     string
}

func addBackfillFlags(cmd *cobra.Command) *backfillFlags {
	f, flags := new(backfillFlags), cmd.Flags()
	flags.StringArrayVar(&f.spec.SearchFields.Tags, "tag", nil,
		"`TAG` one of its tags; may be repeated, like --double and --string")
	flags.StringArrayVar(&f.doubles, "double", nil, "`NAME=NUMBER` a number for pools")
	flags.StringArrayVar(&f.texts, "string", nil, "`NAME=TEXT` a text for pools")
	flags.StringVar(&f.extensions, "extensions", "", "`JSON` an object of your own, which is stored with the backfill")
	return f
}

// read returns the content.
func (f *backfillFlags) read() (client.BackfillSpec, error) {
	doubles, err := pairs(f.doubles, parseNumber)
	if err != nil {
		return client.BackfillSpec{}, cli.Usagef("--double: %w", err)
	}
	f.spec.SearchFields.DoubleArgs = doubles
	f.spec.SearchFields.StringArgs, err = pairs(f.texts, func(text string) (string, error) { return text, nil })
	if err != nil {
		return client.BackfillSpec{}, cli.Usagef("--string: %w", err)
	}
	f.spec.Extensions, err = readExtensions(f.extensions)
	return f.spec, err
}

// readExtensions parses the flag --extensions.
func readExtensions(text string) (extensions map[string]json.RawMessage, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &extensions); err != nil || extensions == nil {
		return nil, cli.Usagef("--extensions: %q isn't a JSON object", text)
	}
	return extensions, nil
}

func newBackfillCreate(t cli.Terminal) *cobra.Command {
	var queue string
	cmd := &cobra.Command{
		Use:        "create",
		SuggestFor: []string{"new", "add"},
		Short:      "Create a backfill, and print it",
		Long: `Create a backfill: the request of a running game for more players. The queue must have "director": "user". The backfill
ends if it isn't acknowledged for the queue's backfillTTL.`,
		Example: "  tidemark backfill create --queue arena --tag eu --double free=3",
		Args:    cli.Arguments(0, 0),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.OnlyJSON(cmd, "Backfill")
	f := addBackfillFlags(cmd)
	cmd.Flags().StringVar(&queue, "queue", "", "`QUEUE` queue of the backfill (default: the queue \"default\")")
	cli.CompleteFlag(cmd, "queue", connection.Queues)
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		spec, err := f.read()
		if err != nil {
			return err
		}
		made, err := c.CreateBackfill(ctx, client.NewBackfill{Queue: queue, BackfillSpec: spec})
		if err != nil {
			return err
		}
		return cli.WriteLine(t.Stdout, made)
	})
	return cmd
}

func newBackfillShow(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "show ID",
		SuggestFor: []string{"describe", "get"},
		Short:      "Print a backfill as JSON",
		Args:       cli.Arguments(1, 1),
	}
	cli.OnlyJSON(cmd, "Backfill")
	cli.AddConnection(cmd, t, 5*time.Second).Handle(func(ctx context.Context, c *client.Client, args []string) error {
		b, err := c.Backfill(ctx, args[0])
		if err != nil {
			return err
		}
		return cli.WriteLine(t.Stdout, b)
	})
	return cmd
}

func newBackfillUpdate(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "update ID",
		Short: "Replace the content of a backfill, and print it",
		Long: `Replace the content of a backfill, but for its persistentField. Tickets that matches have added to it, and that it hasn't
acknowledged, wait for other matches again.`,
		Args: cli.Arguments(1, 1),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.OnlyJSON(cmd, "Backfill")
	f := addBackfillFlags(cmd)
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		spec, err := f.read()
		if err != nil {
			return err
		}
		b, err := c.UpdateBackfill(ctx, args[0], spec)
		if err != nil {
			return err
		}
		return cli.WriteLine(t.Stdout, b)
	})
	return cmd
}

func newBackfillAcknowledge(t cli.Terminal) *cobra.Command {
	var extensions string
	cmd := &cobra.Command{
		Use:        "acknowledge ID CONNECTION",
		SuggestFor: []string{"ack"},
		Short:      "Acknowledge a backfill, and print the tickets that this assigned",
		Long: `Acknowledge a backfill: its game server is there. Tickets that matches have added to it are assigned to CONNECTION, such
as 192.0.2.17:7777.`,
		Args: cli.Arguments(2, 2),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cli.OnlyJSON(cmd, "AcknowledgedBackfill")
	cmd.Flags().StringVar(&extensions, "extensions", "", "`JSON` an object of your own, for the assignments")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		a := client.Acknowledgement{Connection: args[1]}
		var err error
		if a.Extensions, err = readExtensions(extensions); err != nil {
			return err
		}
		done, err := c.AcknowledgeBackfill(ctx, args[0], a)
		if err != nil {
			return err
		}
		return cli.WriteLine(t.Stdout, done)
	})
	return cmd
}

func newBackfillDelete(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "delete ID",
		SuggestFor: []string{"cancel", "remove"},
		Short:      "Delete a backfill",
		Long:       `Delete a backfill, and release its tickets. It also succeeds if the backfill does not exist.`,
		Args:       cli.Arguments(1, 1),
	}
	cli.AddConnection(cmd, t, 5*time.Second).HandleQuietly("id",
		func(ctx context.Context, c *client.Client, args []string) (any, error) {
			return map[string]string{"id": args[0]}, c.DeleteBackfill(ctx, args[0])
		})
	return cmd
}
