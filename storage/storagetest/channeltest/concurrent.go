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
		{name: "concurrent publishers and subscribers lose nothing", clocks: true, run: concurrentAll},
		{name: "concurrent publishes of one ID make one message", run: concurrentDuplicates},
		{name: "concurrent batches don't mix", run: concurrentBatches},
		{name: "the furthest of concurrent acks decides the mark", run: concurrentAcks},
		{name: "concurrent first calls make one channel", run: concurrentFirst},
	}
}

const (
	publishers   = 4
	perPublisher = 50
	readers      = 3
)

func concurrentAll(s *subject) {
	for r := range readers {
		s.subscribe(fmt.Sprintf("reader%d", r))
	}
	clocks := make([][]clock.Clock, publishers)
	seen := make([][]channel.Message, readers)
	g, ctx := errgroup.WithContext(s.ctx())
	for p := range publishers {
		g.Go(func() (err error) {
			clocks[p], err = s.publishLoop(ctx, p)
			return err
		})
	}
	for r := range readers {
		g.Go(func() (err error) {
			seen[r], err = s.readLoop(ctx, fmt.Sprintf("reader%d", r), 3+20*r)
			return err
		})
	}
	require.NoError(s.t, g.Wait())

	owner := s.checkOwners(clocks)
	for _, messages := range seen {
		require.Len(s.t, messages, publishers*perPublisher)
		for i, m := range messages {
			require.Equal(s.t, s.at(i+1), m.Clock, "the order of a reader's messages")
			require.Equal(s.t, owner[m.Clock], m.ID, "the message at %s", m.Clock)
			require.Equal(s.t, string(contentOf(m.ID)), string(m.Content))
		}
	}
}

// checkOwners checks that no clock was assigned twice or skipped, and that each publisher's clocks are in its order. It
// returns the message ID at each clock.
func (s *subject) checkOwners(clocks [][]clock.Clock) map[clock.Clock]string {
	s.t.Helper()
	owner := map[clock.Clock]string{}
	for p, published := range clocks {
		last := s.start
		for i, c := range published {
			require.Empty(s.t, owner[c], "clock %s was assigned twice", c)
			require.True(s.t, clock.Between(last, c, s.at(publishers*perPublisher)), "clock %s after %s", c, last)
			owner[c], last = fmt.Sprintf("p%d.%d", p, i), c
		}
	}
	require.Len(s.t, owner, publishers*perPublisher, "clocks without holes")
	return owner
}

func (s *subject) publishLoop(ctx context.Context, publisher int) ([]clock.Clock, error) {
	var clocks []clock.Clock
	for i := range perPublisher {
		id := fmt.Sprintf("p%d.%d", publisher, i)
		published, err := s.tryPublish(ctx, id)
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

// readLoop is a consumer: if there is nothing to read it waits for an event. Its first fetch follows the confirmation, so
// that it can't miss the last message.
func (s *subject) readLoop(ctx context.Context, name string, limit int) ([]channel.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	woken := make(chan struct{}, 1)
	defer s.store.Listen(s.channel, func(channel.Event) {
		select {
		case woken <- struct{}{}:
		default:
		}
	})()
	return s.consume(ctx, s.request(name, limit), woken)
}

func (s *subject) consume(ctx context.Context, r channel.FetchRequest, woken <-chan struct{}) ([]channel.Message, error) {
	var seen []channel.Message
	var last receipt.Receipt
	for {
		select {
		case <-woken:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s got no event of an unread message; it has %d messages", r.Subscriber, len(seen))
		}
		for more := true; more; {
			b, err := s.readOn(ctx, r, last)
			if err != nil {
				return nil, err
			}
			seen, last, more = append(seen, b.Messages...), s.receiptFor(r.Subscriber, b), b.Through != b.Clock
		}
		if len(seen) >= publishers*perPublisher {
			return seen, s.store.Ack(ctx, channel.AckRequest{Receipt: last, Policy: s.policy})
		}
	}
}

// readOn calls Next if the consumer has a receipt, else Fetch.
func (s *subject) readOn(ctx context.Context, r channel.FetchRequest, last receipt.Receipt) (channel.Batch, error) {
	var b channel.Batch
	var err error
	if last.Channel == "" {
		b, err = s.store.Fetch(ctx, r)
	} else {
		b, err = s.store.Next(ctx, channel.AckRequest{Receipt: last, Policy: s.policy}, r)
	}
	if err != nil {
		return b, fmt.Errorf("read %s: %w", r.Subscriber, err)
	}
	if b.Expired > 0 {
		return b, fmt.Errorf("%s counts %d expired messages", r.Subscriber, b.Expired)
	}
	return b, checkBatch(b, r)
}

func concurrentDuplicates(s *subject) {
	s.subscribe("s")
	for n, id := range numbered(5) {
		var firsts atomic.Int64
		g, ctx := errgroup.WithContext(s.ctx())
		for range 16 {
			g.Go(func() error {
				published, err := s.tryPublish(ctx, id)
				if err != nil {
					return err
				}
				if published[0].Clock != s.at(n+1) {
					return fmt.Errorf("%s got clock %s", id, published[0].Clock)
				}
				if !published[0].Duplicate {
					firsts.Add(1)
				}
				return nil
			})
		}
		require.NoError(s.t, g.Wait())
		require.Equal(s.t, int64(1), firsts.Load(), "exactly one isn't a duplicate")
	}
	s.reads("s", 0, numbered(5)...)
}

func concurrentBatches(s *subject) {
	const size = 7
	s.subscribe("s")
	g, ctx := errgroup.WithContext(s.ctx())
	for b := range 20 {
		g.Go(func() error {
			ids := make([]string, size)
			for i := range ids {
				ids[i] = fmt.Sprintf("b%d.%d", b, i)
			}
			_, err := s.tryPublish(ctx, ids...)
			return err
		})
	}
	require.NoError(s.t, g.Wait())
	ids := idsOf(s.fetch("s"))
	require.Len(s.t, ids, 20*size)
	for i, id := range ids {
		var b, n int
		_, err := fmt.Sscanf(id, "b%d.%d", &b, &n)
		require.NoError(s.t, err)
		require.Equal(s.t, i%size, n, "the position of %s in its batch", id)
		if n > 0 {
			require.Equal(s.t, fmt.Sprintf("b%d.%d", b, n-1), ids[i-1], "the message before %s", id)
		}
	}
}

func concurrentAcks(s *subject) {
	const n = 40
	s.subscribe("s")
	s.batch(numbered(n)...)
	receipts := make([]receipt.Receipt, n)
	for i := range receipts {
		receipts[i] = s.receiptFor("s", s.fetchUpTo("s", i+1))
	}
	g, ctx := errgroup.WithContext(s.ctx())
	for _, r := range receipts {
		g.Go(func() error { return s.store.Ack(ctx, channel.AckRequest{Receipt: r, Policy: s.policy}) })
	}
	require.NoError(s.t, g.Wait())
	require.Equal(s.t, s.at(n), s.markOf("s"))
}

func concurrentFirst(s *subject) {
	const n = 10
	g, ctx := errgroup.WithContext(s.ctx())
	for i := range n {
		g.Go(func() error {
			_, err := s.tryPublish(ctx, numbered(n)[i])
			return err
		})
		g.Go(func() error {
			_, err := s.trySubscribe(numbered(n)[i], earliest)
			return err
		})
	}
	require.NoError(s.t, g.Wait())
	require.Equal(s.t, clock.Clock(n), s.position().Clock)
	d := s.describe()
	require.Equal(s.t, uint64(n), d.Live)
	require.Len(s.t, d.Subscribers, n)
	for _, sub := range d.Subscribers {
		b := s.fetch(sub.Name)
		require.Len(s.t, b.Messages, n, "all of them from earliest")
		s.ack(sub.Name, b)
	}
}
