package channels

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
)

const (
	loadChannel    = "load"
	loadPublishers = 4
	loadMessages   = 120 // of each publisher
	loadMoves      = 16
)

// load is publishers and subscribers at work on one channel.
type load struct {
	store     *Store
	published atomic.Int64
	total     int
}

// publish publishes its messages one by one, and retries each with its ID until it succeeds.
func (l *load) publish(ctx context.Context, publisher int) error {
	for i := range loadMessages {
		r := publishOf(loadChannel, fmt.Sprintf("p%d-%d", publisher, i))
		for {
			_, err := l.store.Publish(ctx, r)
			if err == nil {
				break
			}
			if !errors.Is(err, fault.ErrUnavailable) {
				return err
			}
		}
		l.published.Add(1)
	}
	return nil
}

// taken records the messages that a subscriber has received.
type taken struct {
	seen map[string]bool
	last clock.Clock
}

// take expects each message once, and in order.
func (g *taken) take(messages []channel.Message, expired uint64) error {
	if expired != 0 {
		return fmt.Errorf("%d messages after clock %s are lost", expired, g.last)
	}
	for _, m := range messages {
		if g.seen[m.ID] || m.Clock != g.last.Next() {
			return fmt.Errorf("after clock %s came %s at %s, seen before: %t", g.last, m.ID, m.Clock, g.seen[m.ID])
		}
		g.seen[m.ID], g.last = true, m.Clock
	}
	return nil
}

// subscribe reads until it has all messages. It sleeps until the listener receives an event.
func (l *load) subscribe(ctx context.Context, name string) error {
	heard := make(chan struct{}, 1)
	defer l.store.Listen(loadChannel, func(channel.Event) {
		select {
		case heard <- struct{}{}:
		default:
		}
	})()
	return l.read(ctx, name, heard)
}

func (l *load) read(ctx context.Context, name string, heard <-chan struct{}) error {
	got := taken{seen: map[string]bool{}}
	r := lore{}.fetch(loadChannel)
	r.Subscriber = name
	var ack *channel.AckRequest
	for len(got.seen) < l.total {
		b, err := l.next(ctx, r, ack)
		if errors.Is(err, fault.ErrUnavailable) {
			continue
		}
		if err != nil {
			return err
		}
		if err := got.take(b.Messages, b.Expired); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(b.Messages) > 0 {
			done := receiptOf(loadChannel, b)
			done.Subscriber = name
			ack = &channel.AckRequest{Receipt: done, Policy: r.Policy}
			continue
		}
		select {
		case <-heard:
		case <-ctx.Done():
			return fmt.Errorf("%s has %d of %d messages: %w", name, len(got.seen), l.total, ctx.Err())
		}
	}
	return nil
}

func (l *load) next(ctx context.Context, r channel.FetchRequest, ack *channel.AckRequest) (channel.Batch, error) {
	if ack == nil {
		return l.store.Fetch(ctx, r)
	}
	return l.store.Next(ctx, *ack, r)
}

// poll is subscribe by long polls of a service.
func (l *load) poll(ctx context.Context, service *channel.Service, name string) error {
	got := taken{seen: map[string]bool{}}
	q := channel.Query{Channel: loadChannel, Subscriber: name, Wait: time.Minute}
	handle := ""
	for len(got.seen) < l.total {
		d, err := service.Next(ctx, q, handle)
		if errors.Is(err, fault.ErrUnavailable) {
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%s has %d of %d messages: %w", name, len(got.seen), l.total, err)
		}
		if err := got.take(d.Messages, d.Expired); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		handle = d.Receipt
	}
	return nil
}

// newService returns a service with a backstop.
func newService(t *testing.T, s *Store, backstop time.Duration) *channel.Service {
	t.Helper()
	key, err := receipt.GenerateKey()
	require.NoError(t, err)
	receipts, err := receipt.NewKeyring(key)
	require.NoError(t, err)
	policies, err := channel.NewPolicies(lore{}.policy(), nil)
	require.NoError(t, err)
	limits := channel.DefaultLimits()
	limits.Backstop, limits.MaxWait = backstop, time.Hour
	service, err := channel.NewService(channel.Options{
		Store: s, Receipts: receipts, Policies: policies, Limits: limits, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return service
}

// A channel is used while its slot moves back and forth: no subscriber loses a message or receives one twice or out of
// order, and the clocks have no hole.
func underLoad(t *testing.T, c storetest.TwoNodes) {
	t.Helper()
	s := openOn(t, c, redis.Options{})
	service := newService(t, s, time.Hour) // too long to help: the test detects lost notifications
	l := &load{store: s, total: loadPublishers * loadMessages}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only ends what would hang
	defer cancel()

	var running errgroup.Group
	serving, stop := context.WithCancel(ctx)
	running.Go(func() error { return service.Run(serving) })
	g, working := errgroup.WithContext(ctx)
	for i := range 3 {
		listens, polls := "listens"+strconv.Itoa(i), "polls"+strconv.Itoa(i)
		for _, name := range []string{listens, polls} {
			_, err := service.Subscribe(ctx, channel.SubscribeRequest{Channel: loadChannel, Subscriber: name})
			require.NoError(t, err)
		}
		g.Go(func() error { return l.subscribe(working, listens) })
		g.Go(func() error { return l.poll(working, service, polls) })
	}
	for i := range loadPublishers {
		g.Go(func() error { return l.publish(working, i) })
	}
	for i := range loadMoves {
		storetest.WaitFor(t, "publishes between the moves", func() bool {
			return int(l.published.Load()) >= i*l.total/loadMoves || working.Err() != nil
		})
		c.Move(t, loadChannel)
	}
	require.NoError(t, g.Wait())
	stop()
	require.NoError(t, running.Wait())
	requireWhole(t, s, c.Direct, loadChannel, l.total)
}
