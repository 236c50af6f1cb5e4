package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/assigner"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// soon is the timeout of tests for events that should happen at once.
const soon = 20 * time.Second

// world holds channels and queues in a Redis, under their own key prefix.
type world struct {
	url      string
	conn     *redis.Conn
	queues   *queues.Store
	channels *channel.Service
	prefix   string
}

// everywhere runs a test on each kind of Redis.
func everywhere(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(t))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, openWorld(t, strings.Join(redistest.Cluster(t).Addrs(), ",")))
	})
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return openWorld(t, redistest.Standalone(t).URL())
}

func openWorld(t *testing.T, url string) *world {
	t.Helper()
	w := &world{prefix: redistest.Prefix(t), url: url}
	log := slog.New(slog.DiscardHandler)
	w.conn, w.queues = w.connect(t)
	store, err := channels.New(w.conn, channels.Options{})
	require.NoError(t, err)
	t.Cleanup(store.Close)

	ring, err := receipt.NewKeyring(receipt.Key(bytes.Repeat([]byte{7}, receipt.MinKeyBytes)))
	require.NoError(t, err)
	policies, err := channel.NewPolicies(channel.Policy{TTL: 30 * time.Minute, MaxMessageBytes: 64 << 10}, nil)
	require.NoError(t, err)
	w.channels, err = channel.NewService(channel.Options{
		Store: store, Receipts: ring, Policies: policies, Limits: channel.DefaultLimits(), Logger: log,
	})
	require.NoError(t, err)
	background(t, w.channels.Run)
	return w
}

// connect opens connections like another server's.
func (w *world) connect(t *testing.T) (*redis.Conn, *queues.Store) {
	t.Helper()
	conn, err := redis.Connect(t.Context(), redis.Options{URL: w.url, KeyPrefix: w.prefix,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	tickets := queues.New(conn, queues.Options{})
	t.Cleanup(tickets.Close)
	return conn, tickets
}

// background runs a function until the test ends or stop is called.
func background(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	done := false
	stop = func() {
		if done {
			return
		}
		done = true
		cancel()
		require.NoError(t, <-ended)
	}
	t.Cleanup(stop)
	return stop
}

// build builds the parts of queues as the product does.
func build(d matchmaking.Definition) (matchmaking.Parts, error) {
	if d.ByUser() {
		return matchmaking.Parts{Evaluator: function.Decollide{}}, nil
	}
	a, err := assigner.New(d, nil)
	if err != nil {
		return matchmaking.Parts{}, err
	}
	return matchmaking.Parts{
		Matcher:   function.FirstCome(d.Match.Teams, d.Match.TeamSize),
		Evaluator: function.Decollide{},
		Assigner:  a,
	}, nil
}

// options returns options for a service in w, with short durations and the test's log.
func (w *world) options(t *testing.T, definitions ...matchmaking.Definition) service.Options {
	t.Helper()
	return service.Options{
		Store: w.queues, Lookup: queues.NewLookup(w.conn), Channels: delivery.New(w.channels), Build: build,
		Definitions: definitions,
		ChannelTTL:  30 * time.Minute, Logger: testLog(t),
		Timing: service.Timing{
			LeaseTTL: 600 * time.Millisecond, RelayAge: 200 * time.Millisecond, Refresh: 100 * time.Millisecond,
			Drain: 2 * time.Second,
		},
	}
}

func testLog(t *testing.T) *slog.Logger {
	t.Helper()
	out := io.Discard
	if testing.Verbose() {
		out = t.Output()
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func newService(t *testing.T, o service.Options) *service.Service {
	t.Helper()
	s, err := service.New(o)
	require.NoError(t, err)
	return s
}

// define parses a definition.
func define(t *testing.T, name, text string) matchmaking.Definition {
	t.Helper()
	d, err := matchmaking.ParseDefinition(name, []byte(text))
	require.NoError(t, err)
	return d
}

// create creates a ticket.
func create(t *testing.T, s *service.Service, n service.NewTicket) matchmaking.Ticket {
	t.Helper()
	made, created, err := s.Create(t.Context(), n)
	require.NoError(t, err)
	require.True(t, created)
	return made
}

// assignment waits for the message on a ticket's channel.
func (w *world) assignment(t *testing.T, ticket string) matchmaking.Assignment {
	t.Helper()
	d := w.fetch(t, ticket, soon)
	require.Len(t, d.Messages, 1, "ticket %s", ticket)
	var a matchmaking.Assignment
	require.NoError(t, json.Unmarshal(d.Messages[0].Content, &a))
	require.Equal(t, matchmaking.MessagePrefix+a.MatchID, d.Messages[0].ID)
	require.Equal(t, ticket, a.TicketID)
	return a
}

func (w *world) fetch(t *testing.T, ticket string, wait time.Duration) channel.Delivery {
	t.Helper()
	d, err := w.channels.Fetch(t.Context(), channel.Query{
		Channel: matchmaking.ChannelOf(ticket), Subscriber: matchmaking.Subscriber, Wait: wait,
	})
	require.NoError(t, err)
	return d
}

// emptied waits until a queue has neither waiting tickets nor unpublished assignments.
func (w *world) emptied(t *testing.T, queue string) {
	t.Helper()
	require.Eventually(t, func() bool {
		state, err := w.queues.Describe(t.Context(), queue, 0)
		return err == nil && state.Searching+state.Pending+state.Outgoing == 0
	}, soon, 5*time.Millisecond)
}
