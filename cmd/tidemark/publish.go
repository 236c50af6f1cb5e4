package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/cli"
)

type publishFlags struct {
	*cli.Connection
	id    string
	text  bool
	lines bool
	batch int
}

func newPublish(t cli.Terminal) *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:        "publish CHANNEL [CONTENT]",
		SuggestFor: []string{"send", "post"},
		Short:      "Publish a message, or one for each line",
		Long: `Publish a message, or one for each line, and print what became of it as JSON.

CONTENT is JSON. Where it is missing or -, it is read from standard input. A message that is published again
after a failure keeps its ID, so that it can't get onto the channel twice.`,
		Example: `  tidemark publish lobby '{"text":"hello"}'
  tidemark publish lobby --text hello
  tidemark publish lobby --id order-17 < order.json
  tail -f app.log | tidemark publish logs --lines --text`,
		Args: cli.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), t, args)
		},
	}
	f.Connection = cli.AddConnection(cmd, t, 5*time.Second)
	cmd.Flags().StringVar(&f.id, "id", "", "the message's `ID`; the same ID is published once (default: one is made)")
	cmd.Flags().BoolVar(&f.text, "text", false, "the content is plain text, which is published as a JSON string without the line end")
	cmd.Flags().BoolVar(&f.lines, "lines", false, "each line of standard input that isn't blank is a message")
	cmd.Flags().IntVar(&f.batch, "batch", 100, "with --lines: publish up to `N` lines together, all or none of them")
	return cmd
}

func (f *publishFlags) run(ctx context.Context, t cli.Terminal, args []string) error {
	channel, stdin := args[0], len(args) == 1 || args[1] == "-"
	switch {
	case f.lines && !stdin:
		return cli.Usagef("--lines reads standard input: leave CONTENT out")
	case f.lines && f.id != "":
		return cli.Usagef("--id is for one message, not for --lines")
	case f.batch < 1:
		return cli.Usagef("--batch: %d is too small, at least 1 is needed", f.batch)
	}
	c, err := f.Open()
	if err != nil {
		return err
	}
	defer c.Close()
	if f.lines {
		return f.publishLines(ctx, c, t, channel)
	}
	var raw []byte
	if stdin {
		raw, err = cli.ReadAll(ctx, t.Stdin)
	} else {
		raw = []byte(args[1])
	}
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	content, err := f.content(raw)
	if err != nil {
		return cli.Usagef("the content %w", err)
	}
	published, err := c.Publish(ctx, channel, client.Draft{ID: f.id, Content: content})
	if err != nil {
		return err
	}
	return cli.WriteLine(t.Stdout, published)
}

// content gives what is to be published for what was written.
func (f *publishFlags) content(raw []byte) (json.RawMessage, error) {
	if f.text {
		var content bytes.Buffer
		err := cli.WriteLine(&content, strings.TrimSuffix(string(raw), "\n"))
		return content.Bytes(), err
	}
	var valid json.RawMessage
	if err := json.Unmarshal(raw, &valid); err != nil {
		return nil, fmt.Errorf("isn't JSON: %w; for plain text there is --text", err)
	}
	return raw, nil
}

// publishLines publishes lines as they come, as many together as are there. After a failure all lines before the
// batch that failed are published, and none after it.
func (f *publishFlags) publishLines(ctx context.Context, c *client.Client, t cli.Terminal, channel string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := cli.NewLineReader(f.batch)
	go in.Read(ctx, t.Stdin)
	for {
		lines, ended := in.Batch(ctx, f.batch)
		var drafts []client.Draft
		for _, l := range lines {
			content, err := f.content(l.Text)
			if err != nil {
				ended = cli.Usagef("line %d %w", l.Number, err)
				break
			}
			drafts = append(drafts, client.Draft{Content: content})
		}
		if len(drafts) > 0 {
			published, err := c.PublishBatch(ctx, channel, drafts)
			if err != nil {
				return fmt.Errorf("lines from %d on: %w", lines[0].Number, err)
			}
			for _, p := range published {
				if err := cli.WriteLine(t.Stdout, p); err != nil {
					return fmt.Errorf("write: %w", err)
				}
			}
		}
		switch {
		case errors.Is(ended, io.EOF):
			return nil
		case ended != nil:
			return ended
		}
	}
}
