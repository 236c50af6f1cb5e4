package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

func newQueue(t cli.Terminal) *cobra.Command {
	return cli.NewGroup("queue", "Show and change queues of tickets",
		newQueueList(t), newQueueShow(t), newQueuePut(t), newQueueDelete(t), newQueueSimulate(t))
}

func newQueueList(t cli.Terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show all queues",
		Args:  cli.Arguments(0, 0),
	}
	connection := cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each queue: Queue, with its whole definition")
	connection.Handle(func(ctx context.Context, c *client.Client, _ []string) error {
		queues, err := c.Queues(ctx)
		if err != nil {
			return err
		}
		if !asJSON {
			return writeQueues(t.Stdout, queues)
		}
		for _, q := range queues {
			if err := cli.WriteLine(t.Stdout, q); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

// outline is the part of a definition that is shown in a list.
type outline struct {
	Director matchmaking.Director `json:"director"`
	Match    struct {
		Function string `json:"function"`
		Teams    int    `json:"teams"`
		TeamSize int    `json:"teamSize"`
	} `json:"match"`
	Assigner struct {
		Kind string `json:"kind"`
	} `json:"assigner"`
}

func outlineOf(q client.Queue) (outline, error) {
	var o outline
	if err := json.Unmarshal(q.Definition, &o); err != nil {
		return outline{}, fmt.Errorf("the definition of queue %s: %w", q.Name, err)
	}
	return o, nil
}

func writeQueues(w io.Writer, queues []client.Queue) error {
	rows := "QUEUE\tFUNCTION\tTEAMS\tASSIGNER\n"
	for _, q := range queues {
		o, err := outlineOf(q)
		if err != nil {
			return err
		}
		if o.Director == matchmaking.DirectorUser {
			rows += cli.Row("%s\tof its user\t-\t-\n", q.Name)
			continue
		}
		rows += cli.Row("%s\t%s\t%d of %d\t%s\n", q.Name, o.Match.Function, o.Match.Teams, o.Match.TeamSize,
			o.Assigner.Kind)
	}
	return cli.WriteTable(w, rows)
}

func newQueuePut(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "put QUEUE [DEFINITION | FILE]",
		SuggestFor: []string{"create", "add", "new", "set", "update"},
		Short:      "Create or replace a queue",
		Long: `Create or replace a queue with a definition in JSON, and print the definition with its defaults filled in.

If DEFINITION and FILE are missing, or FILE is -, the definition is read from standard input. Queues of the service's
configuration can't be replaced. In a printed definition, xxxxx stands for the stored secret, which isn't changed.`,
		Example: `  tidemark queue put fives '{"match":{"teams":2,"teamSize":5}}'
  tidemark queue put fives fives.json`,
		Args: cli.Arguments(1, 2),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cli.CompleteArguments(cmd, 1, connection.Queues)
	cli.OnlyJSON(cmd, "Queue")
	connection.Handle(func(ctx context.Context, c *client.Client, args []string) error {
		definition, err := readDefinition(ctx, t, args[1:])
		if err != nil {
			return fmt.Errorf("read the definition: %w", err)
		}
		q, err := c.PutQueue(ctx, args[0], definition)
		if err != nil {
			return err
		}
		return cli.WriteLine(t.Stdout, q)
	})
	return cmd
}

// readDefinition returns the definition that rest names: itself, a file, or standard input.
func readDefinition(ctx context.Context, t cli.Terminal, rest []string) ([]byte, error) {
	switch {
	case len(rest) == 0 || rest[0] == "-":
		return t.ReadInput(ctx, "the definition")
	case strings.HasPrefix(strings.TrimSpace(rest[0]), "{"):
		return []byte(rest[0]), nil
	}
	return cli.ReadFile(rest[0])
}

func newQueueDelete(t cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "delete QUEUE",
		SuggestFor: []string{"remove"},
		Short:      "Delete a queue that was put",
		Long:       `Delete a queue that was put and in which no ticket waits. It also succeeds if the queue does not exist.`,
		Args:       cli.Arguments(1, 1),
	}
	connection := cli.AddAdministration(cmd, t, 5*time.Second)
	cli.CompleteArguments(cmd, 1, connection.Queues)
	connection.HandleQuietly("queue", func(ctx context.Context, c *client.Client, args []string) (any, error) {
		return map[string]string{"queue": args[0]}, c.DeleteQueue(ctx, args[0])
	})
	return cmd
}
