package client_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/assigner"
	"github.com/tidemark-dev/tidemark/matchmaking/function"
	"github.com/tidemark-dev/tidemark/matchmaking/onchannels"
	matchservice "github.com/tidemark-dev/tidemark/matchmaking/service"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
)

// TestServiceProcess is the service that startService starts: it says where it listens, and ends with its standard
// input. In the test binary that started it, it does nothing.
func TestServiceProcess(t *testing.T) {
	t.Parallel()
	if os.Getenv(serviceEnv) == "" {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	w := &worlds{t: t, redis: redistest.Standalone(t).URL(), prefix: redistest.Prefix(t), handlers: map[string]http.Handler{}}
	w.run = func(run func(context.Context) error) { group.Go(func() error { return run(ctx) }) }
	hs := httptest.NewServer(w)
	defer hs.Close()
	fmt.Printf("service at %s\n", hs.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	require.NoError(t, group.Wait())
}

// worlds is a service whose first path segment chooses one of any number of services, which know nothing of each
// other. So every test and example, and every repeat of one, has channels of its own.
type worlds struct {
	t             *testing.T
	redis, prefix string
	run           func(func(context.Context) error) // until the end of the process
	mu            sync.Mutex
	handlers      map[string]http.Handler
}

func (w *worlds) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.mu.Lock()
	h, ok := w.handlers[name]
	if !ok {
		var err error
		if h, err = w.make(name); err != nil {
			w.mu.Unlock()
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		w.handlers[name] = h
	}
	w.mu.Unlock()
	http.StripPrefix("/"+name, h).ServeHTTP(rw, r)
}

// make starts one more service, with keys of its own.
func (w *worlds) make(name string) (http.Handler, error) {
	log := slog.New(slog.DiscardHandler)
	conn, err := redis.Connect(w.t.Context(), redis.Options{URL: w.redis, KeyPrefix: w.prefix + name + ".", Logger: log})
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(conn.Close)
	store, err := channels.New(conn, channels.Options{})
	if err != nil {
		return nil, err
	}
	receipts, err := store.ReceiptKeys(w.t.Context())
	if err != nil {
		return nil, err
	}
	policies, err := channel.NewPolicies(
		channel.Policy{TTL: time.Hour, MaxMessageBytes: 1 << 10},
		[]channel.Rule{{Pattern: "short", MaxMessages: "2"}},
	)
	if err != nil {
		return nil, err
	}
	s, err := channel.NewService(channel.Options{
		Store: store, Receipts: receipts.Keyring, Policies: policies, Limits: channel.DefaultLimits(), Logger: log,
	})
	if err != nil {
		return nil, err
	}
	w.run(s.Run)
	m, err := matchservice.New(matchservice.Options{
		Store: queues.New(conn, queues.Options{}), Lookup: queues.NewLookup(conn), Channels: onchannels.New(s), ChannelTTL: time.Hour, Logger: log, Build: build,
		Definitions: []matchmaking.Definition{fixedQueue},
	})
	if err != nil {
		return nil, err
	}
	w.run(m.Run)
	storage := func() channel.Storage { return channel.Storage{Kind: "standalone"} }
	return server.New(server.Options{Service: s, Matchmaking: m, Storage: storage, Ready: conn.Ready, Version: "test", Logger: log}).Handler(), nil
}

// fixedQueue is part of the configuration of every service.
var fixedQueue = func() matchmaking.Definition {
	d, err := matchmaking.ParseDefinition("duel", []byte(`{"assigner":{"connection":"127.0.0.1:7777"}}`))
	if err != nil {
		panic(err)
	}
	return d
}()

func build(d matchmaking.Definition) (matchmaking.Parts, error) {
	a, err := assigner.New(d, nil)
	matcher := function.FirstCome(d.Match.Teams, d.Match.TeamSize)
	return matchmaking.Parts{Matcher: matcher, Evaluator: function.Decollide{}, Assigner: a}, err
}

// TestAgainstTheService goes through a life of a channel, and the errors that the examples don't show.
func TestAgainstTheService(t *testing.T) {
	t.Parallel()
	c := newClient(t, newWorld())
	ctx := t.Context()
	_, err := c.Describe(ctx, "life")
	require.ErrorIs(t, err, client.ErrNoChannel)
	_, err = c.Fetch(ctx, "life", "ann", client.FetchOptions{})
	require.ErrorIs(t, err, client.ErrNoSubscriber)
	_, err = c.Publish(ctx, "{life}", client.Draft{Content: []byte(`1`)})
	require.ErrorIs(t, err, client.ErrInvalidChannel)
	_, err = c.Publish(ctx, "a/b", client.Draft{Content: []byte(`1`)})
	require.ErrorIs(t, err, client.ErrInvalidChannel)
	_, err = c.Publish(ctx, "life", client.Draft{ID: "-", Content: []byte(`1`)})
	require.ErrorIs(t, err, client.ErrInvalidMessageID)
	_, err = c.Publish(ctx, "life", client.Draft{Content: []byte(`{"a":1,"a":2}`)})
	require.ErrorIs(t, err, client.ErrInvalidBody)
	_, err = c.Publish(ctx, "life", client.Draft{Content: make1KiB()})
	require.ErrorIs(t, err, client.ErrMessageTooLarge)
	_, err = c.PublishBatch(ctx, "life", nil)
	require.ErrorIs(t, err, client.ErrInvalidBatch)
	_, err = c.Subscribe(ctx, "life", "ann", client.After(1))
	require.ErrorIs(t, err, client.ErrInvalidFrom)

	const content = "{ \"a\" : 1.00, \"b\":\t\"\\u003c<é\" }"
	_, err = c.Publish(ctx, "life", client.Draft{Content: []byte(content)})
	require.NoError(t, err)
	_, err = c.Subscribe(ctx, "life", "ann", client.Earliest)
	require.NoError(t, err)
	d, err := c.Fetch(ctx, "life", "ann", client.FetchOptions{})
	require.NoError(t, err)
	require.Equal(t, content, string(d.Messages[0].Content))
	require.False(t, d.Messages[0].PublishedAt.IsZero())

	require.ErrorIs(t, c.Ack(ctx, "life", "ann", "x"), client.ErrReceiptMalformed)
	require.ErrorIs(t, c.Ack(ctx, "life", "bob", d.ReceiptHandle), client.ErrReceiptSubscriber)
	require.ErrorIs(t, c.Ack(ctx, "live", "ann", d.ReceiptHandle), client.ErrReceiptChannel)
	_, err = c.Fetch(ctx, "life", "ann", client.FetchOptions{Max: 100_000})
	require.ErrorIs(t, err, client.ErrInvalidMax)
	_, err = c.Next(ctx, "life", "ann", d.ReceiptHandle, client.FetchOptions{Wait: channel.MaxTTL})
	require.ErrorIs(t, err, client.ErrInvalidWait)
}

// make1KiB gives a content that is a little longer than a kibibyte.
func make1KiB() []byte {
	content := make([]byte, 1<<10+2)
	for i := range content {
		content[i] = ' '
	}
	content[0], content[len(content)-1] = '"', '"'
	return content
}

func TestConsumeAgainstTheService(t *testing.T) {
	t.Parallel()
	c := newClient(t, newWorld())
	ctx := t.Context()
	_, err := c.Subscribe(ctx, "short", "ann", client.Earliest)
	require.NoError(t, err)
	for range 5 {
		_, err := c.Publish(ctx, "short", client.Draft{Content: []byte(`1`)})
		require.NoError(t, err)
	}
	var got []clock.Clock
	var expired uint64
	consumer := consumption(&got, func(at clock.Clock) error {
		if at == 5 { // the next one comes while Consume waits for it
			go func() {
				_, err := c.Publish(ctx, "short", client.Draft{Content: []byte(`1`)})
				if err != nil {
					panic(err)
				}
			}()
		}
		return stopAt(6)(at)
	})
	consumer.Channel, consumer.Subscriber = "short", "ann"
	consumer.Expired = func(n uint64) { expired += n }
	require.NoError(t, c.Consume(ctx, consumer))
	require.Equal(t, []clock.Clock{4, 5, 6}, got)
	require.Equal(t, uint64(3), expired)
	d, err := c.Describe(ctx, "short")
	require.NoError(t, err)
	require.Equal(t, []client.SubscriberLag{{Name: "ann", Mark: 6, Lag: 0}}, d.Subscribers)

	// A subscriber that is removed ends it.
	removed := make(chan error, 1)
	go func() { removed <- c.Consume(ctx, consumer) }()
	require.NoError(t, c.Unsubscribe(ctx, "short", "ann"))
	require.ErrorIs(t, <-removed, client.ErrNoSubscriber)
}
