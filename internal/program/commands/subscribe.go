package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// cleanupTimeout bounds the last acknowledgement, and the removal of a temporary subscriber or a ticket.
const cleanupTimeout = 5 * time.Second

type subscribeFlags struct {
	*cli.Connection
	name  string
	from  string
	noAck bool
	raw   bool
	max   int
	count int

	stream bool
	wait   time.Duration
}

func newSubscribe(t cli.Terminal) *cobra.Command {
	var f subscribeFlags
	cmd := &cobra.Command{
		Use:        "subscribe CHANNEL...",
		SuggestFor: []string{"listen", "consume", "fetch"},
		Short:      "Print messages as they arrive",
		Long: `Print messages as they arrive, one line of JSON each, until SIGINT or SIGTERM, or until all channels are closed.

Each message is acknowledged after it was written to standard output. Messages come on one stream, of all channels. If
there is none, because the service is older than streams or a proxy holds them back, one request at a time waits for
messages. With several channels each line begins with the message's channel.

With --raw only the content of a message is printed: a text as it is, and other JSON on one line. On a terminal, control
characters of texts are escaped. A content that isn't JSON is base64 without --raw, and its bytes with --raw, after which
there is only a line end if they are text.

The subscriber NAME is created on channels that don't have it. It stays, and the next run continues where this one stopped.
Without --subscriber a temporary one is created, and removed at the end.`,
		Example: `  tidemark subscribe lobby
  tidemark subscribe lobby news notifications:ann
  tidemark subscribe lobby --subscriber ann --from earliest
  tidemark subscribe lobby --subscriber ann --no-ack --count 10
  tidemark subscribe logs --raw | grep ERROR`,
		Args: cli.Arguments(1, client.MaxSources),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.raw && cmd.Flags().Changed(cli.JSONFlag) {
				return cli.Usagef("--raw and --json can't be combined")
			}
			return f.run(cmd.Context(), t, args)
		},
	}
	f.Connection = cli.AddConnection(cmd, t, time.Minute)
	cli.CompleteArguments(cmd, client.MaxSources, f.Channels)
	cmd.Flags().StringVar(&f.name, "subscriber", "", "`NAME` the subscriber's name (default: a temporary one)")
	cmd.Flags().StringVar(&f.from, "from", "latest",
		"`POSITION` where a new subscriber starts: latest, earliest, or a number: after the message with that clock")
	cli.OnlyJSON(cmd, "Message, a line for each; before its members the channel if there are several")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "print only the contents, and texts without quotes")
	cmd.Flags().BoolVar(&f.noAck, "no-ack", false, "acknowledge nothing: the subscriber's marks stay where they are")
	cmd.Flags().IntVar(&f.max, "max", 1,
		"write up to `N` messages before they are acknowledged together")
	cmd.Flags().IntVar(&f.count, "count", 0, "exit after `N` messages (default: no limit)")
	cmd.Flags().BoolVar(&f.stream, "stream", true,
		"read a stream, if there is one; with --stream=false only requests that wait")
	cmd.Flags().DurationVar(&f.wait, "wait", 20*time.Second,
		"how long one request waits for messages if there is no stream; the service limits it")
	return cmd
}

func (f *subscribeFlags) run(ctx context.Context, t cli.Terminal, args []string) error {
	from, err := f.start()
	if err != nil {
		return err
	}
	var polls []client.Option
	if !f.stream {
		polls = append(polls, client.WithoutStreams())
	}
	c, err := f.Open(polls...)
	if err != nil {
		return err
	}
	defer c.Close()

	// If the reader of the output exits, the next write fails. Without this the signal would end the process before it
	// has removed its temporary subscriber.
	closed := make(chan os.Signal, 1)
	signal.Notify(closed, syscall.SIGPIPE)
	defer signal.Stop(closed)

	s := &subscribing{subscribeFlags: f, client: c, terminal: t, channels: args}
	err = s.run(ctx, from)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) || errors.Is(err, syscall.EPIPE) {
		return nil // the user ended it
	}
	return err
}

// start checks the flags, and returns where a new subscriber starts.
func (f *subscribeFlags) start() (client.From, error) {
	switch {
	case f.max < 1:
		return client.From{}, cli.Usagef("--max: %d is too small, at least 1 is needed", f.max)
	case f.count < 0:
		return client.From{}, cli.Usagef("--count: %d is negative", f.count)
	case f.wait < time.Millisecond:
		return client.From{}, cli.Usagef("--wait: %s is too short, at least 1ms is needed", f.wait)
	case f.from == "latest":
		return client.Latest, nil
	case f.from == "earliest":
		return client.Earliest, nil
	}
	after, err := clock.Parse(f.from)
	if err != nil {
		return client.From{}, cli.Usagef("--from: %q isn't latest, earliest or a clock", f.from)
	}
	return client.After(after), nil
}

// subscribing is one run of the command.
type subscribing struct {
	*subscribeFlags
	client   *client.Client
	terminal cli.Terminal
	channels []string
	written  int
}

func (s *subscribing) run(ctx context.Context, from client.From) (err error) {
	sources := make([]client.Source, len(s.channels))
	temporary := s.name == "" || s.noAck
	name := s.name
	if temporary {
		name = "cli-" + id.New()
	}
	for i, channel := range s.channels {
		start, failed := s.prepare(ctx, channel, from)
		if failed != nil {
			return failed
		}
		sources[i] = client.Source{Channel: channel, Subscriber: name}
		if !temporary {
			continue
		}
		if _, failed = s.client.Subscribe(ctx, channel, name, start); failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, s.remove(ctx, sources[i])) }()
	}
	return s.client.ConsumeMany(ctx, client.ManyConsumer{
		From: sources, Handle: s.write, Gap: s.reportGap, Closed: s.reportEnd,
		FetchOptions: client.FetchOptions{Max: s.together(), Wait: s.wait},
		AckGrace:     cleanupTimeout,
	})
}

// prepare creates the named subscriber on a channel, and returns where a temporary one in its place starts.
func (s *subscribing) prepare(ctx context.Context, channel string, from client.From) (client.From, error) {
	if s.name == "" {
		return from, nil
	}
	made, err := s.client.Subscribe(ctx, channel, s.name, from)
	if err != nil {
		return from, err
	}
	if !made.Created && from != client.Latest {
		s.terminal.Report("subscriber %s exists: it continues from its mark, %s, and --from is ignored", s.name,
			made.Mark)
	}
	return client.After(made.Mark), nil
}

// remove deletes a temporary subscriber, also after ctx has ended.
func (s *subscribing) remove(ctx context.Context, from client.Source) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return s.client.Unsubscribe(ctx, from.Channel, from.Subscriber)
}

// together returns how many messages to fetch at once: never more than remain to be written.
func (s *subscribing) together() int {
	if s.count > 0 {
		return min(s.max, s.count)
	}
	return s.max
}

func (s *subscribing) write(_ context.Context, from client.Source, m client.Message) error {
	if err := s.print(from, m); err != nil {
		return fmt.Errorf("write a message, which stays unacknowledged: %w", err)
	}
	if s.written++; s.written == s.count {
		return client.ErrStop
	}
	return nil
}

func (s *subscribing) print(from client.Source, m client.Message) error {
	switch {
	case s.raw:
		text, err := s.rawContent(&m)
		if err == nil {
			_, err = io.WriteString(s.terminal.Stdout, text)
		}
		return err
	case len(s.channels) > 1:
		return cli.WriteLine(s.terminal.Stdout, channelMessage{Channel: from.Channel, Message: m})
	}
	return cli.WriteLine(s.terminal.Stdout, m)
}

// rawContent returns a message as --raw prints it.
func (s *subscribing) rawContent(m *client.Message) (string, error) {
	if m.ContentType == "" {
		return s.rawLine(m.Content), nil
	}
	content, err := m.Bytes()
	text := string(content)
	if cli.IsTerminal(s.terminal.Stdout) {
		text = cli.PrintableLines(text)
	}
	if strings.HasPrefix(m.ContentType, "text/") {
		text += "\n"
	}
	return text, err
}

// rawLine returns the JSON content of a message as --raw prints it.
func (s *subscribing) rawLine(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) != nil {
		var line bytes.Buffer
		if err := json.Compact(&line, content); err != nil {
			return string(content) + "\n" // it is JSON: the service has checked it
		}
		text = line.String()
	}
	if cli.IsTerminal(s.terminal.Stdout) {
		text = cli.PrintableLines(text)
	}
	return text + "\n"
}

// channelMessage is a line about one of several channels.
type channelMessage struct {
	Channel string `json:"channel"`
	client.Message
}

// reportGap reports messages that are not printed, or may be printed again.
func (s *subscribing) reportGap(from client.Source, gap client.Gap) {
	of := ""
	if len(s.channels) > 1 {
		of = " of " + from.Channel
	}
	switch gap.Reason {
	case client.GapLost:
		s.terminal.Report("the storage has lost messages%s, as after a fail-over: some may be missing, and others come again",
			of)
	case client.GapMoved:
		s.terminal.Report("an operator has moved the subscriber%s: messages may be missing, or come again", of)
	default:
		s.terminal.Report("%d messages%s %s before they were read", gap.Count, of, wasGone[gap.Reason])
	}
}

// reportEnd reports a channel that is closed.
func (s *subscribing) reportEnd(from client.Source) {
	s.terminal.Report("%s is closed: no messages follow", from.Channel)
}

// wasGone says by the reason of a gap what has happened to its messages.
var wasGone = map[string]string{
	client.GapExpired: "had expired", client.GapPurged: "were purged", client.GapDamaged: "were damaged",
}
