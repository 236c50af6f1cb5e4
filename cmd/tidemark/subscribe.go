package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/cli"
	"github.com/tidemark-dev/tidemark/internal/id"
)

// farewell is how long the last acknowledgement, and the removal of a temporary subscriber, may take.
const farewell = 5 * time.Second

type subscribeFlags struct {
	*cli.Connection
	from  string
	noAck bool
	max   int
	count int
	wait  time.Duration
}

func newSubscribe(t cli.Terminal) *cobra.Command {
	var f subscribeFlags
	cmd := &cobra.Command{
		Use:        "subscribe CHANNEL [SUBSCRIBER]",
		SuggestFor: []string{"listen", "consume", "fetch"},
		Short:      "Print messages as they come",
		Long: `Print messages as they come, one JSON a line, until SIGINT or SIGTERM.

Each message is acknowledged after it was written to standard output. The subscriber is made where it is missing,
and stays; the next run goes on where this one stopped. Without SUBSCRIBER a temporary one is made, and removed at
the end.`,
		Example: `  tidemark subscribe lobby
  tidemark subscribe lobby ann --from earliest
  tidemark subscribe lobby ann --no-ack --count 10`,
		Args: cli.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), t, args)
		},
	}
	f.Connection = cli.AddConnection(cmd, t, time.Minute)
	cmd.Flags().StringVar(&f.from, "from", "latest", "where a new subscriber starts: latest, earliest, or after a `CLOCK`")
	cmd.Flags().BoolVar(&f.noAck, "no-ack", false, "acknowledge nothing: SUBSCRIBER's mark stays where it is")
	cmd.Flags().IntVar(&f.max, "max", 1, "fetch up to `N` messages together, and acknowledge them together when all are written")
	cmd.Flags().IntVar(&f.count, "count", 0, "end after `N` messages (default: go on)")
	cmd.Flags().DurationVar(&f.wait, "wait", 20*time.Second, "how long one request waits for messages; the service has a limit")
	return cmd
}

func (f *subscribeFlags) run(ctx context.Context, t cli.Terminal, args []string) error {
	from, err := f.start()
	if err != nil {
		return err
	}
	c, err := f.Open()
	if err != nil {
		return err
	}
	defer c.Close()

	// A reader of the output that goes away shows as an error of the next write, not as a signal that would end
	// the process before it has removed its temporary subscriber.
	closed := make(chan os.Signal, 1)
	signal.Notify(closed, syscall.SIGPIPE)
	defer signal.Stop(closed)

	s := &subscribing{subscribeFlags: f, client: c, terminal: t, channel: args[0]}
	if len(args) == 2 {
		s.subscriber = args[1]
	}
	err = s.run(ctx, from)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) || errors.Is(err, syscall.EPIPE) {
		return nil // it was told to end
	}
	return err
}

// start checks the flags, and gives where a new subscriber starts.
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
	client     *client.Client
	terminal   cli.Terminal
	channel    string
	subscriber string // empty until a temporary one is made
	written    int
}

func (s *subscribing) run(ctx context.Context, from client.From) (err error) {
	temporary := s.subscriber == "" || s.noAck
	if from, err = s.prepare(ctx, from); err != nil {
		return err
	}
	if temporary {
		s.subscriber = "cli-" + id.New()
		if _, err := s.client.Subscribe(ctx, s.channel, s.subscriber, from); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.remove(ctx)) }()
	}
	return s.client.Consume(ctx, client.Consumer{
		Channel: s.channel, Subscriber: s.subscriber,
		Handle:       s.write,
		Expired:      s.tellExpired,
		FetchOptions: client.FetchOptions{Max: s.together(), Wait: s.wait},
		AckGrace:     farewell,
	})
}

// prepare makes the named subscriber, and gives where a temporary one that stands in for it starts.
func (s *subscribing) prepare(ctx context.Context, from client.From) (client.From, error) {
	if s.subscriber == "" {
		return from, nil
	}
	made, err := s.client.Subscribe(ctx, s.channel, s.subscriber, from)
	if err != nil {
		return from, err
	}
	if !made.Created && from != client.Latest {
		s.terminal.Report("%s is there already: it goes on from its mark, %s, and --from changes nothing", s.subscriber, made.Mark)
	}
	return client.After(made.Mark), nil
}

// remove unsubscribes a temporary subscriber, also after ctx has ended.
func (s *subscribing) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	return s.client.Unsubscribe(ctx, s.channel, s.subscriber)
}

// together is how many messages to fetch at once: never more than are to be written.
func (s *subscribing) together() int {
	if s.count > 0 {
		return min(s.max, s.count)
	}
	return s.max
}

func (s *subscribing) write(_ context.Context, m client.Message) error {
	if err := cli.WriteLine(s.terminal.Stdout, m); err != nil {
		return fmt.Errorf("write a message, which stays unacknowledged: %w", err)
	}
	if s.written++; s.written == s.count {
		return client.ErrStop
	}
	return nil
}

func (s *subscribing) tellExpired(n uint64) {
	s.terminal.Report("%d messages had expired before they were read", n)
}
