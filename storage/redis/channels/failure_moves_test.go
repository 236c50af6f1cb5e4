package channels

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// serviceOf returns a running service of a store.
func serviceOf(t *testing.T, s *Store) *channel.Service {
	t.Helper()
	ring, err := receipt.NewKeyring(make([]byte, receipt.MinKeyBytes))
	require.NoError(t, err)
	policies, err := channel.NewPolicies(lore{}.policy(), nil)
	require.NoError(t, err)
	service, err := channel.NewService(channel.Options{Store: s, Receipts: ring, Policies: policies,
		Limits: channel.DefaultLimits(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = service.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return service
}

// follow waits for the messages of a channel and acknowledges them, until the one with the ID last. It returns their
// clocks by ID.
func follow(ctx context.Context, s *channel.Service, name, subscriber, last string) (map[string]clock.Clock, error) {
	found, handle := map[string]clock.Clock{}, ""
	for {
		d, err := s.Next(ctx, channel.Query{Channel: name, Subscriber: subscriber, Max: 100, Wait: 20 * time.Second},
			handle)
		if errors.Is(err, fault.ErrUnavailable) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if d.Expired > 0 {
			return nil, fmt.Errorf("%d messages are lost", d.Expired)
		}
		if handle = d.Receipt; len(d.Messages) == 0 {
			continue
		}
		for _, m := range d.Messages {
			found[m.ID] = m.Clock
			if m.ID == last {
				return found, nil
			}
		}
	}
}

// The address of Redis moves to its replica, twice, while the former primary stays up. Publishers go on, and
// subscribers that wait all along get every message that was answered.
func TestFailureAddressThatMoves(t *testing.T) {
	t.Parallel()
	nodes := []*redistest.Node{redistest.Start(t, redistest.Options{})}
	nodes = append(nodes, redistest.StartReplica(t, nodes[0]))
	address := redistest.Forward(t, nodes[0])

	const last = "last"
	s := open(t, redis.Options{URL: address.Addr(), Timeout: time.Minute})
	service, subscribers := serviceOf(t, s), [8]map[string]clock.Clock{}
	var following errgroup.Group
	for i := range subscribers {
		name := "s" + strconv.Itoa(i)
		_, err := service.Subscribe(t.Context(), channel.SubscribeRequest{Channel: "x", Subscriber: name})
		require.NoError(t, err)
		following.Go(func() (err error) {
			subscribers[i], err = follow(t.Context(), service, "x", name, last)
			return err
		})
	}
	waiting := listen(t, s, "idle")
	p := publishOn(t, s, "x", true)
	for i := range 2 {
		from, to := nodes[i%2], nodes[(i+1)%2]
		redistest.SwitchOver(t, from, to)
		address.SetTarget(to.Addr())
		p.awaitMore(t)
		waiting.await(t, channel.EventConfirmed)
	}
	p.end(t)
	waiting.requirePublished(t, s, "idle", "after")
	_, err := s.Publish(t.Context(), publishOf("x", last))
	require.NoError(t, err)
	require.NoError(t, following.Wait())

	at, err := s.Position(t.Context(), "x")
	require.NoError(t, err)
	require.GreaterOrEqual(t, int64(at.Clock), p.answers.Load()+1)
	requireWhole(t, s, nodes[0].Client(), "x", int(at.Clock))
	for _, found := range subscribers {
		require.Len(t, found, int(at.Clock))
	}
}
