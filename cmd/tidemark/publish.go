package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
)

type publishFlags struct {
	*connection
	id    string
	text  bool
	lines bool
	batch int
}

func newPublish(t terminal) *cobra.Command {
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
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), t, args)
		},
	}
	f.connection = addConnection(cmd, t, 5*time.Second)
	cmd.Flags().StringVar(&f.id, "id", "", "the message's `ID`; the same ID is published once (default: one is made)")
	cmd.Flags().BoolVar(&f.text, "text", false, "the content is plain text, which is published as a JSON string without the line end")
	cmd.Flags().BoolVar(&f.lines, "lines", false, "each line of standard input that isn't blank is a message")
	cmd.Flags().IntVar(&f.batch, "batch", 100, "with --lines: publish up to `N` lines together, all or none of them")
	return cmd
}

func (f *publishFlags) run(ctx context.Context, t terminal, args []string) error {
	channel, stdin := args[0], len(args) == 1 || args[1] == "-"
	switch {
	case f.lines && !stdin:
		return usagef("--lines reads standard input: leave CONTENT out")
	case f.lines && f.id != "":
		return usagef("--id is for one message, not for --lines")
	case f.batch < 1:
		return usagef("--batch: %d is too small, at least 1 is needed", f.batch)
	}
	c, err := f.open(t)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.lines {
		return f.publishLines(ctx, c, t, channel)
	}
	var raw []byte
	if stdin {
		raw, err = readAll(ctx, t.stdin)
	} else {
		raw = []byte(args[1])
	}
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	content, err := f.content(raw)
	if err != nil {
		return usagef("the content %w", err)
	}
	published, err := c.Publish(ctx, channel, client.Draft{ID: f.id, Content: content})
	if err != nil {
		return err
	}
	return writeLine(t.stdout, published)
}

// content gives what is to be published for what was written.
func (f *publishFlags) content(raw []byte) (json.RawMessage, error) {
	if f.text {
		var content bytes.Buffer
		err := writeLine(&content, strings.TrimSuffix(string(raw), "\n"))
		return content.Bytes(), err
	}
	var valid json.RawMessage
	if err := json.Unmarshal(raw, &valid); err != nil {
		return nil, fmt.Errorf("isn't JSON: %w; for plain text there is --text", err)
	}
	return raw, nil
}

// readAll reads r to its end, but gives up when ctx ends.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(r)
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
