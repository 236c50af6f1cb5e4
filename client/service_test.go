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
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/assigner"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
	matchservice "github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestServiceProcess is the service that startService starts: it prints its address, and ends with its standard input.
// In the test binary that started it, it does nothing.
func TestServiceProcess(t *testing.T) {
	t.Parallel()
	if os.Getenv(serviceEnv) == "" {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	w := &worlds{t: t, redis: redistest.Standalone(t).URL(), prefix: redistest.Prefix(t),
		handlers: map[string]http.Handler{}}
	w.run = func(run func(context.Context) error) { group.Go(func() error { return run(ctx) }) }
	hs := httptest.NewServer(w)
	defer hs.Close()
	fmt.Printf("service at %s\n", hs.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	require.NoError(t, group.Wait())
}

// worlds is a service whose first path segment selects one of any number of independent services. So every test and
// example, and every repeat of one, has channels of its own.
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

// make starts another service, with its own keys.
func (w *worlds) make(name string) (http.Handler, error) {
	log := slog.New(slog.DiscardHandler)
	conn, err := redis.Connect(w.t.Context(), redis.Options{URL: w.redis, KeyPrefix: w.prefix + name + ".",
		Logger: log})
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(conn.Close)
	store, err := channels.New(conn, channels.Options{})
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(store.Close)
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
		Store: queues.New(conn, queues.Options{}), Lookup: queues.NewLookup(conn), Channels: delivery.New(s),
		ChannelTTL: time.Hour, Logger: log, Build: build,
		Definitions: []matchmaking.Definition{fixedQueue},
	})
	if err != nil {
		return nil, err
	}
	w.run(m.Run)
	storage := func() storage.Description { return storage.Description{Kind: "standalone"} }
	made := server.New(server.Options{Service: s, Matchmaking: m, Storage: storage, Ready: conn.Ready, Version: "test",
		Logger: log})
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/admin/") { // stands for the admin address
			http.StripPrefix("/admin", made.AdminHandler()).ServeHTTP(rw, r)
			return
		}
		made.Handler().ServeHTTP(rw, r)
	}), nil
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

// TestConsumeAgainstTheService consumes existing messages, and one that arrives while Consume waits for it. The
// contents are those that were published, byte for byte, and expired messages are counted.
func TestConsumeAgainstTheService(t *testing.T) {
	t.Parallel()
	c := newClient(t, newWorld())
	ctx := t.Context()
	_, err := c.Subscribe(ctx, "short", "ann", client.Earliest)
	require.NoError(t, err)
	const content = "{ \"a\" : 1.00, \"b\":\t\"\\u003c<é\" }"
	publish := func() {
		if _, err := c.Publish(ctx, "short", client.Draft{Content: []byte(content)}); err != nil {
			panic(err)
		}
	}
	for range 5 {
		publish()
	}
	var got []clock.Clock
	var expired uint64
	consumer := consumption(&got, func(at clock.Clock) error {
		if at == 5 {
			go publish()
		}
		return stopAt(6)(at)
	})
	handle := consumer.Handle
	consumer.Handle = func(ctx context.Context, m client.Message) error {
		require.Equal(t, content, string(m.Content))
		return handle(ctx, m)
	}
	consumer.Channel, consumer.Subscriber = "short", "ann"
	consumer.Gap = func(gap client.Gap) { expired += gap.Count }
	require.NoError(t, c.Consume(ctx, consumer))
	require.Equal(t, []clock.Clock{4, 5, 6}, got)
	require.Equal(t, uint64(3), expired)
	d, err := c.Describe(ctx, "short")
	require.NoError(t, err)
	require.Equal(t, []client.SubscriberLag{{Name: "ann", Mark: 6, Lag: 0}}, d.Subscribers)
}
