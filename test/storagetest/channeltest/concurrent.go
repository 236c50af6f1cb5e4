package channeltest

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

func concurrentCases() []testCase {
	return []testCase{
		{Name: "concurrent publishers and subscribers lose nothing", Clocks: true, Run: concurrentAll},
		{Name: "concurrent publishes of one ID make one message", Run: concurrentDuplicates},
		{Name: "concurrent batches don't mix", Run: concurrentBatches},
		{Name: "the furthest of concurrent acks decides the mark", Run: concurrentAcks},
		{Name: "concurrent first calls make one channel", Run: concurrentFirst},
	}
}

const (
	publishers   = 4
	perPublisher = 50
	readers      = 3
)

func concurrentAll(s *testChannel) {
	for r := range readers {
		s.Subscribe(fmt.Sprintf("reader%d", r))
	}
	clocks := make([][]clock.Clock, publishers)
	seen := make([][]channel.Message, readers)
	g, ctx := errgroup.WithContext(s.Ctx())
	for p := range publishers {
		g.Go(func() (err error) {
			clocks[p], err = publishLoop(ctx, s, p)
			return err
		})
	}
	for r := range readers {
		g.Go(func() (err error) {
			seen[r], err = readLoop(ctx, s, fmt.Sprintf("reader%d", r), 3+20*r)
			return err
		})
	}
	require.NoError(s.T, g.Wait())

	owner := checkOwners(s, clocks)
	for _, messages := range seen {
		require.Len(s.T, messages, publishers*perPublisher)
		for i, m := range messages {
			require.Equal(s.T, s.At(i+1), m.Clock, "the order of a reader's messages")
			require.Equal(s.T, owner[m.Clock], m.ID, "the message at %s", m.Clock)
			require.Equal(s.T, string(contentOf(m.ID)), string(m.Content))
		}
	}
}

// checkOwners checks that no clock was assigned twice or skipped, and that each publisher's clocks are in its order. It
// returns the message ID at each clock.
func checkOwners(s *testChannel, clocks [][]clock.Clock) map[clock.Clock]string {
	s.T.Helper()
	owner := map[clock.Clock]string{}
	for p, published := range clocks {
		last := s.Start
		for i, c := range published {
			require.Empty(s.T, owner[c], "clock %s was assigned twice", c)
			require.True(s.T, clock.Between(last, c, s.At(publishers*perPublisher)), "clock %s after %s", c, last)
			owner[c], last = fmt.Sprintf("p%d.%d", p, i), c
		}
	}
	require.Len(s.T, owner, publishers*perPublisher, "clocks without holes")
	return owner
}

func publishLoop(ctx context.Context, s *testChannel, publisher int) ([]clock.Clock, error) {
	var clocks []clock.Clock
	for i := range perPublisher {
		id := fmt.Sprintf("p%d.%d", publisher, i)
		published, err := s.TryPublish(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("publish %s: %w", id, err)
		}
		if published[0].Duplicate {
			return nil, fmt.Errorf("%s is reported as a duplicate", id)
		}
		clocks = append(clocks, published[0].Clock)
	}
	return clocks, nil
}

// readLoop is a consumer: if there is nothing to read it waits for an event. Its first fetch follows the confirmation,
// so that it can't miss the last message.
func readLoop(ctx context.Context, s *testChannel, name string, limit int) ([]channel.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	woken := make(chan struct{}, 1)
	defer s.Store.Listen(s.Name, func(channel.Event) {
		select {
		case woken <- struct{}{}:
		default:
		}
	})()
	return consume(ctx, s, s.Request(name, limit), woken)
}

func consume(ctx context.Context, s *testChannel, r channel.FetchRequest, woken <-chan struct{}) ([]channel.Message,
	error) {
	var seen []channel.Message
	var last receipt.Receipt
	for {
		select {
		case <-woken:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s got no event of an unread message; it has %d messages", r.Subscriber, len(seen))
		}
		for more := true; more; {
			b, err := readOn(ctx, s, r, last)
			if err != nil {
				return nil, err
			}
			seen, last, more = append(seen, b.Messages...), s.ReceiptFor(r.Subscriber, b), b.Through != b.Clock
		}
		if len(seen) >= publishers*perPublisher {
			return seen, s.Store.Ack(ctx, channel.AckRequest{Receipt: last, Policy: s.Policy})
		}
	}
}

// readOn calls Next if the consumer has a receipt, else Fetch.
func readOn(ctx context.Context, s *testChannel, r channel.FetchRequest, last receipt.Receipt) (channel.Batch, error) {
	var b channel.Batch
	var err error
	if last.Channel == "" {
		b, err = s.Store.Fetch(ctx, r)
	} else {
		b, err = s.Store.Next(ctx, channel.AckRequest{Receipt: last, Policy: s.Policy}, r)
	}
	if err != nil {
		return b, fmt.Errorf("read %s: %w", r.Subscriber, err)
	}
	if b.Expired > 0 {
		return b, fmt.Errorf("%s counts %d expired messages", r.Subscriber, b.Expired)
	}
	return b, checkBatch(b, r)
}

func concurrentDuplicates(s *testChannel) {
	s.Subscribe("s")
	for n, id := range numbered(5) {
		var firsts atomic.Int64
		g, ctx := errgroup.WithContext(s.Ctx())
		for range 16 {
			g.Go(func() error {
				published, err := s.TryPublish(ctx, id)
				if err != nil {
					return err
				}
				if published[0].Clock != s.At(n+1) {
					return fmt.Errorf("%s got clock %s", id, published[0].Clock)
				}
				if !published[0].Duplicate {
					firsts.Add(1)
				}
				return nil
			})
		}
		require.NoError(s.T, g.Wait())
		require.Equal(s.T, int64(1), firsts.Load(), "exactly one isn't a duplicate")
	}
	s.Reads("s", 0, numbered(5)...)
}

func concurrentBatches(s *testChannel) {
	const size = 7
	s.Subscribe("s")
	g, ctx := errgroup.WithContext(s.Ctx())
	for b := range 20 {
		g.Go(func() error {
			ids := make([]string, size)
			for i := range ids {
				ids[i] = fmt.Sprintf("b%d.%d", b, i)
			}
			_, err := s.TryPublish(ctx, ids...)
			return err
		})
	}
	require.NoError(s.T, g.Wait())
	ids := idsOf(s.Fetch("s"))
	require.Len(s.T, ids, 20*size)
	for i, id := range ids {
		var b, n int
		_, err := fmt.Sscanf(id, "b%d.%d", &b, &n)
		require.NoError(s.T, err)
		require.Equal(s.T, i%size, n, "the position of %s in its batch", id)
		if n > 0 {
			require.Equal(s.T, fmt.Sprintf("b%d.%d", b, n-1), ids[i-1], "the message before %s", id)
		}
	}
}

func concurrentAcks(s *testChannel) {
	const n = 40
	s.Subscribe("s")
	s.Batch(numbered(n)...)
	receipts := make([]receipt.Receipt, n)
	for i := range receipts {
		receipts[i] = s.ReceiptFor("s", s.FetchUpTo("s", i+1))
	}
	g, ctx := errgroup.WithContext(s.Ctx())
	for _, r := range receipts {
		g.Go(func() error { return s.Store.Ack(ctx, channel.AckRequest{Receipt: r, Policy: s.Policy}) })
	}
	require.NoError(s.T, g.Wait())
	require.Equal(s.T, s.At(n), s.MarkOf("s"))
}

func concurrentFirst(s *testChannel) {
	const n = 10
	g, ctx := errgroup.WithContext(s.Ctx())
	for i := range n {
		g.Go(func() error {
			_, err := s.TryPublish(ctx, numbered(n)[i])
			return err
		})
		g.Go(func() error {
			_, err := s.TrySubscribe(numbered(n)[i], earliest)
			return err
		})
	}
	require.NoError(s.T, g.Wait())
	require.Equal(s.T, clock.Clock(n), s.Position().Clock)
	d := s.Describe()
	require.Equal(s.T, uint64(n), d.Live)
	require.Len(s.T, d.Subscribers, n)
	for _, sub := range d.Subscribers {
		b := s.Fetch(sub.Name)
		require.Len(s.T, b.Messages, n, "all of them from earliest")
		s.Ack(sub.Name, b)
	}
}
