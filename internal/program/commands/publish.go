package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

type publishFlags struct {
	*cli.Connection
	id    string
	text  bool
	lines bool
	batch int
	close bool

	contentType, file string

	idPrefix string
}

func newPublish(t cli.Terminal) *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:        "publish CHANNEL [CONTENT]",
		SuggestFor: []string{"send", "post"},
		Short:      "Publish a message, or one per line",
		Long: `Publish a message, or one per line, and print the result as JSON.

CONTENT is JSON, or with --content-type any bytes of that type. If it is missing or -, it is read from standard input, or
from a file. A publish that is retried after a failure
keeps the message's ID, so that the message is on the channel once.

With --lines, lines are published in order. After a failure all lines before the one that standard error names are
published, and none from there on. With --id-prefix the same input can then be published again: only the lines that are
missing are, as long as the channel keeps IDs. On a terminal, standard error counts the lines.

With --close the channel gets no further messages: it is closed in one step with the message, or after the last line.

If the channel has the ID with other content, nothing is published, and standard error says so.`,
		Example: `  tidemark publish lobby '{"text":"hello"}'
  tidemark publish lobby --text hello
  tidemark publish lobby --id order-17 < order.json
  tidemark publish images --content-type image/png --file cat.png
  tail -f app.log | tidemark publish logs --lines --text
  tidemark publish orders --lines --id-prefix import-7 < orders.jsonl`,
		Args: cli.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), t, args)
		},
	}
	f.Connection = cli.AddConnection(cmd, t, 5*time.Second)
	cli.CompleteArguments(cmd, 1, f.Channels)
	cli.OnlyJSON(cmd, "Published, a line for each message")
	cmd.Flags().StringVar(&f.id, "id", "", "`ID` the message's ID, under which it is published once (default: a new ID)")
	cmd.Flags().BoolVar(&f.text, "text", false, "publish the content as a JSON string, without its line end")
	cmd.Flags().StringVar(&f.contentType, "content-type", "",
		"`TYPE` the media type of a content that isn't JSON, whose bytes are published as they are")
	cmd.Flags().StringVar(&f.file, "file", "", "`FILE` read the content from a file")
	cmd.Flags().BoolVar(&f.lines, "lines", false, "publish each line of standard input that isn't blank")
	cmd.Flags().StringVar(&f.idPrefix, "id-prefix", "", "`PREFIX` with --lines: the ID of a message is this, a hyphen, and the number of its line")
	cmd.Flags().BoolVar(&f.close, "close", false, "close the channel with the message, or after the last line")
	cmd.Flags().IntVar(&f.batch, "batch", 100, "with --lines: publish up to `N` lines together, all or none of them")
	return cmd
}

func (f *publishFlags) run(ctx context.Context, t cli.Terminal, args []string) error {
	channel, stdin := args[0], len(args) == 1 || args[1] == "-"
	switch {
	case f.lines && !stdin:
		return cli.Usagef("--lines reads standard input: leave CONTENT out")
	case f.file != "" && (f.lines || !stdin):
		return cli.Usagef("--file has the content: leave out CONTENT and --lines")
	case f.text && f.contentType != "":
		return cli.Usagef("--text and --content-type can't be combined: with --text the content is JSON")
	case f.lines && f.id != "":
		return cli.Usagef("--id and --lines can't be combined")
	case f.idPrefix != "" && !f.lines:
		return cli.Usagef("--id-prefix needs --lines")
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
	raw, err := f.read(ctx, t, args[1:])
	if err != nil {
		return err
	}
	d, err := f.draft(f.id, raw)
	if err != nil {
		return cli.Usagef("the content %w", err)
	}
	all, err := c.PublishWith(ctx, channel, []client.Draft{d}, client.PublishOptions{Close: f.close})
	if err != nil {
		return err
	}
	published := all[0]
	if published.Differs {
		t.Report("not published: %s has ID %s with other content, at clock %s; publish this content with another ID",
			channel, published.ID, published.Clock)
	}
	return cli.WriteLine(t.Stdout, published)
}

// read returns the user's input: an argument, a file, or standard input. Bytes that aren't JSON stay as they are.
func (f *publishFlags) read(ctx context.Context, t cli.Terminal, argument []string) (raw []byte, err error) {
	switch {
	case len(argument) > 0 && argument[0] != "-":
		return []byte(argument[0]), nil
	case f.file != "":
		if raw, err = os.ReadFile(f.file); err != nil {
			return nil, fmt.Errorf("read the content: %w", err)
		}
	default:
		t.ReportInput("the content")
		if raw, err = cli.ReadAll(ctx, t.Stdin); err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
	}
	if f.contentType == "" {
		raw = cli.TrimBOM(raw)
	}
	return raw, nil
}

// draft returns the message to publish for the user's input.
func (f *publishFlags) draft(id string, raw []byte) (d client.Draft, err error) {
	d.ID = id
	if f.contentType != "" {
		d.SetBytes(f.contentType, raw)
		raw = d.Content
	}
	if d.ContentType == "" {
		d.Content, err = f.content(raw)
	}
	return d, err
}

// content returns the JSON to publish for the user's input.
func (f *publishFlags) content(raw []byte) (json.RawMessage, error) {
	if f.text {
		if !utf8.Valid(raw) {
			return nil, errors.New("isn't UTF-8, as text must be: convert it, or publish bytes as base64")
		}
		var content bytes.Buffer
		err := cli.WriteLine(&content, strings.TrimSuffix(string(raw), "\n"))
		return content.Bytes(), err
	}
	var valid json.RawMessage
	if err := json.Unmarshal(raw, &valid); err != nil {
		return nil, fmt.Errorf("isn't JSON: %w; use --text for plain text, or --content-type", err)
	}
	return raw, nil
}

// publishLines publishes lines as they arrive, those that are available together in one batch. After a failure all
// lines before the batch that failed are published, and none after it.
func (f *publishFlags) publishLines(ctx context.Context, c *client.Client, t cli.Terminal, channel string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.ReportInput("a message per line")
	in, count := cli.NewLineReader(f.batch), newLineCount(t)
	defer count.finish()
	go in.Read(ctx, t.Stdin)
	for {
		lines, ended := in.Batch(ctx, f.batch)
		drafts, err := f.drafts(lines)
		if err != nil {
			ended = err
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
			count.add(lines, published)
		}
		switch {
		case errors.Is(ended, io.EOF) && f.close:
			_, err := c.CloseChannel(ctx, channel, nil)
			return err
		case errors.Is(ended, io.EOF):
			return nil
		case ended != nil:
			return ended
		}
	}
}

// drafts returns the messages of lines, up to the first line that isn't valid, and the error of that.
func (f *publishFlags) drafts(lines []cli.Line) (drafts []client.Draft, err error) {
	for _, l := range lines {
		id := ""
		if f.idPrefix != "" {
			id = fmt.Sprintf("%s-%d", f.idPrefix, l.Number)
		}
		d, err := f.draft(id, l.Text)
		if err != nil {
			return drafts, cli.Usagef("line %d %w", l.Number, err)
		}
		drafts = append(drafts, d)
	}
	return drafts, nil
}

// lineCount counts the lines that were published. If standard error is a terminal, it shows the count there: while
// lines are published, unless standard output is a terminal, too, and at the end. Everywhere it reports at the end how
// many lines were not published because the channel has their IDs with other content.
type lineCount struct {
	terminal                   cli.Terminal
	progress                   *cli.Progress
	new, duplicates, differing int
	differingID                string // of the first such line
	differingLine              int
}

func newLineCount(t cli.Terminal) *lineCount {
	return &lineCount{terminal: t, progress: t.NewProgress()}
}

func (c *lineCount) add(lines []cli.Line, published []client.Published) {
	for i, p := range published {
		switch {
		case p.Differs:
			if c.differing == 0 {
				c.differingID, c.differingLine = p.ID, lines[i].Number
			}
			c.differing++
			c.duplicates++
		case p.Duplicate:
			c.duplicates++
		default:
			c.new++
		}
	}
	if !cli.IsTerminal(c.terminal.Stdout) {
		c.progress.Report("%d lines published so far, %d duplicates", c.new, c.duplicates)
	}
}

func (c *lineCount) finish() {
	if cli.IsTerminal(c.terminal.Stderr) {
		c.terminal.Report("%d lines published, %d duplicates", c.new, c.duplicates)
	}
	if c.differing > 0 {
		c.terminal.Report("%d lines not published, the first is line %d, ID %s: the channel has their IDs with other "+
			"content; publish them with another --id-prefix", c.differing, c.differingLine, c.differingID)
	}
}
