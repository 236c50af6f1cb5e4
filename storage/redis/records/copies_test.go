package records_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/records"
	domain "github.com/tidemark-dev/tidemark/internal/records/followers"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/test/process"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// workerEnv makes a process of this test binary copy messages: "<URL of Redis> <key prefix>".
const workerEnv = "TIDEMARK_TEST_COPIES_WORKER"

func connect(t testing.TB, url string) *redis.Conn {
	t.Helper()
	conn, err := redis.Connect(t.Context(), redis.Options{URL: url, KeyPrefix: redistest.Prefix(t),
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// TestStore: contents of the set, on each kind of Redis.
func TestCopies(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		conn, ctx := connect(t, r.URL), t.Context()
		s := redisrecords.NewCopies(conn)
		announced := make(chan string, 10_000)
		storagetest.Watch(t, func(started func()) (stop func()) {
			return s.Watch(func(name string) { announced <- name },
				started)
		})

		at, _, err := s.Age(ctx, "a")
		require.NoError(t, err)
		require.Empty(t, at)
		removed, err := s.Settle(ctx, "a", at)
		require.NoError(t, err)
		require.False(t, removed)

		require.NoError(t, s.Announce(ctx, "a"))
		require.NoError(t, s.Announce(ctx, "b"))
		require.Equal(t, []string{"a", "b"}, []string{<-announced, <-announced})
		at, age, err := s.Age(ctx, "a")
		require.NoError(t, err)
		require.Less(t, age, time.Minute)
		require.Eventually(t, func() bool { // an announcement in a later millisecond
			require.NoError(t, s.Announce(ctx, "a"))
			later, _, err := s.Age(ctx, "a")
			return err == nil && later > at
		}, storagetest.Patience, time.Millisecond)
		removed, err = s.Settle(ctx, "a", at)
		require.NoError(t, err)
		require.False(t, removed, "another message was announced")
		at, _, err = s.Age(ctx, "b")
		require.NoError(t, err)
		for _, want := range []bool{true, false} {
			removed, err = s.Settle(ctx, "b", at)
			require.NoError(t, err)
			require.Equal(t, want, removed)
		}
		var all []string
		require.NoError(t, s.Pending(ctx, func(name string) { all = append(all, name) }))
		require.Equal(t, []string{"a"}, all)
	})
}

func TestCopiesPage(t *testing.T) {
	t.Parallel()
	const heading = "## Copies to followers"
	scripts := luatest.Scripts(t, "records/copies")
	storetest.RequireScripts(t, "records", scripts)
	storetest.RequireUses(t, storetest.KeyRows(t, "records", heading), scripts,
		map[string][]string{"pending": {"pending_copies:{all}"}, "topic": {"announced_copies:{all}"}}, "pending",
		"watch")
	storetest.RequireStatuses(t, "copies.go", scripts)
}

// TestCopiesAreBounded: beyond the bound only channels already in the set can be announced.
func TestCopiesAreBounded(t *testing.T) {
	t.Parallel()
	conn := connect(t, redistest.Standalone(t).URL())
	s, key := redisrecords.NewCopies(conn), conn.Prefix()+"pending_copies:{all}"
	add := []string{"ZADD", key}
	for i := range domain.MaxPending {
		add = append(add, "1", strconv.Itoa(i))
	}
	require.NoError(t, redistest.Standalone(t).Do(t, add...).Error())
	require.ErrorIs(t, s.Announce(t.Context(), "new"), domain.ErrFull)
	require.NoError(t, s.Announce(t.Context(), "7"))
	n := 0
	require.NoError(t, s.Pending(t.Context(), func(string) { n++ }))
	require.GreaterOrEqual(t, n, domain.MaxPending)
}

const (
	topic     = "notifications:topic:1"
	followers = 400
	messages  = 100
)

// service returns channels whose topics are copied.
func service(conn *redis.Conn) (*channel.Service, error) {
	store, err := channels.New(conn, channels.Options{})
	if err != nil {
		return nil, err
	}
	policies, err := channel.NewPolicies(
		channel.Policy{TTL: time.Hour, MaxMessageBytes: 1000},
		[]channel.Rule{{Pattern: "notifications:topic:.+", Copies: true}},
	)
	if err != nil {
		return nil, err
	}
	key, err := receipt.GenerateKey()
	if err != nil {
		return nil, err
	}
	ring, err := receipt.NewKeyring(key)
	if err != nil {
		return nil, err
	}
	return channel.NewService(channel.Options{
		Store: store, Receipts: ring, Policies: policies, Limits: channel.DefaultLimits(),
		Logger: slog.New(slog.DiscardHandler),
		Copies: domain.NewAnnouncer(redisrecords.NewCopies(conn), site.Community().Sources),
	})
}

// list is the list of followers.
type list struct{}

func (list) Of(context.Context, string) (all []records.ID, err error) {
	for i := range followers {
		all = append(all, records.ID(strconv.Itoa(i)))
	}
	return all, nil
}

// printed prints each outcome.
type printed struct{}

func (printed) Count(o domain.Outcome, n int) { fmt.Println(o, n) }

// work is the program of a worker: it copies messages until it is killed.
func work() {
	url, prefix, _ := strings.Cut(os.Getenv(workerEnv), " ")
	ctx, log := context.Background(), slog.New(slog.DiscardHandler)
	conn, err := redis.Connect(ctx, redis.Options{URL: url, KeyPrefix: prefix, Timeout: storagetest.Patience, Logger: log})
	if err != nil {
		panic(err)
	}
	s, err := service(conn)
	if err != nil {
		panic(err)
	}
	manager, err := lease.NewManager(leases.New(conn), lease.Options{TTL: 2 * time.Second})
	if err != nil {
		panic(err)
	}
	go func() { _ = s.Run(ctx) }()
	_ = domain.NewJob(domain.Options{
		Store: redisrecords.NewCopies(conn), Channels: s, Followers: list{}, Leases: manager, Metrics: printed{},
		Logger: log,
	}).Run(ctx)
}

type worker struct{ process.Process }

func startWorker(t *testing.T, url, prefix string) *worker {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	w := &worker{process.Process{
		Program: self, Env: append(os.Environ(), workerEnv+"="+url+" "+prefix), Dir: t.TempDir(), LogName: "worker.log",
	}}
	require.NoError(t, w.Start(t.Context()))
	t.Cleanup(func() { _ = w.End(syscall.SIGKILL) })
	return w
}

// counted returns how often the worker has printed an outcome.
func (w *worker) counted(t *testing.T, o domain.Outcome) (n int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.Dir, w.LogName))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(strings.TrimSpace(line), string(o)+" "); ok {
			counted, err := strconv.Atoi(count)
			require.NoError(t, err)
			n += counted
		}
	}
	return n
}

// TestAKilledJob kills processes while they copy messages. Another one continues: each follower has each message once,
// in order.
func TestAKilledJob(t *testing.T) {
	t.Parallel()
	url := redistest.Standalone(t).URL()
	conn, ctx := connect(t, url), t.Context()
	s, err := service(conn)
	require.NoError(t, err)
	var want []string
	for i := range messages {
		want = append(want, fmt.Sprint("m", i))
		_, err := s.Publish(ctx, channel.PublishRequest{
			Channel: topic, Drafts: []channel.Draft{{ID: want[i], Content: []byte("1")}},
		})
		require.NoError(t, err)
	}
	duplicates := 0
	for range 3 {
		w := startWorker(t, url, conn.Prefix())
		for began := time.Now(); w.counted(t, domain.Delivered) <= followers*messages/5; <-time.After(time.Millisecond) {
			require.True(t, w.Alive() && time.Since(began) < storagetest.Patience, "the worker has ended, or goes on: %s",
				process.LastLines(w.Log(), 20))
		}
		require.NoError(t, w.End(syscall.SIGKILL))
		duplicates += w.counted(t, domain.Duplicate)
	}
	w := startWorker(t, url, conn.Prefix())
	for i := range followers {
		name := "notifications:" + strconv.Itoa(i)
		require.Eventually(t, func() bool {
			d, err := s.Describe(ctx, name, channel.Page{})
			return err == nil && d.Live >= messages
		}, storagetest.Patience, time.Millisecond)
		_, err := s.Subscribe(ctx, channel.SubscribeRequest{
			Channel: name, Subscriber: "reader", From: channel.From{Start: channel.StartEarliest},
		})
		require.NoError(t, err)
		got, err := s.Fetch(ctx, channel.Query{Channel: name, Subscriber: "reader", Max: 1000})
		require.NoError(t, err)
		var ids []string
		for _, m := range got.Messages {
			ids = append(ids, m.ID)
		}
		require.Equal(t, want, ids, name)
	}
	require.Positive(t, duplicates+w.counted(t, domain.Duplicate), "a process was killed in the middle of copying")
	_, err = s.Fetch(ctx, channel.Query{Channel: topic, Subscriber: channel.CopiesSubscriber})
	require.ErrorContains(t, err, "the service's")
}
