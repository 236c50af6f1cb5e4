package records

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
	"github.com/tidemark-dev/tidemark/internal/records/tokens"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/recordstest"
)

// TestConformance runs the suites of the stores on every kind of Redis, each case under a key prefix of its own.
func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, "sessions", recordstest.RunSessions,
		func(_ testing.TB, _ storagetest.Redis, conn *redis.Conn) recordstest.SessionHarness {
			return sessionsHarness{NewSessions(conn)}
		})
	conform(t, "settings", recordstest.RunSettings,
		func(_ testing.TB, r storagetest.Redis, conn *redis.Conn) recordstest.SettingHarness {
			s := NewSettings(conn)
			s.limit = recordstest.Most
			return settingsHarness{s, r.Client}
		})
	conform(t, "tokens", recordstest.RunTokens,
		func(t testing.TB, r storagetest.Redis, conn *redis.Conn) recordstest.TokenHarness {
			return tokensHarness{t, r, NewTokens(conn)}
		})
	conform(t, "counters", recordstest.RunCounters,
		func(_ testing.TB, _ storagetest.Redis, conn *redis.Conn) recordstest.CounterHarness {
			return countersHarness{NewCounters(conn), conn}
		})
}

// conform runs the suite of one store.
func conform[H any](t *testing.T, store string, run func(*testing.T, func(testing.TB) H),
	open func(testing.TB, storagetest.Redis, *redis.Conn) H) {
	t.Helper()
	t.Run(store, func(t *testing.T) {
		t.Parallel()
		storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
			run(t, func(t testing.TB) H {
				t.Helper()
				return open(t, r, storetest.Connect(t, redis.Options{URL: r.URL, KeyPrefix: redistest.Prefix(t)}))
			})
		})
		t.Run("plain keys", func(t *testing.T) {
			t.Parallel()
			node := redistest.Standalone(t)
			run(t, func(t testing.TB) H {
				t.Helper()
				return open(t, storagetest.Redis{URL: node.URL(), Client: node.Client()}, connectPlain(t))
			})
		})
	})
}

// connectPlain returns a connection with plain keys.
func connectPlain(t testing.TB) *redis.Conn {
	t.Helper()
	return storetest.Connect(t, redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t),
		Timeout: storagetest.Patience, PlainKeys: true})
}

// The harnesses spell keys out, so that they don't repeat a mistake of a store.

// spelled returns one of two keys, that with braces or the plain one.
func spelled(conn *redis.Conn, braces, plain string) string {
	if conn.PlainKeys() {
		return conn.Prefix() + plain
	}
	return conn.Prefix() + braces
}

type sessionsHarness struct{ store *Sessions }

func (h sessionsHarness) Store() sessions.Store { return h.store }

func (h sessionsHarness) do(ctx context.Context, command, key string, args ...string) (int64, error) {
	c := h.store.conn.Client()
	return c.Do(ctx, c.B().Arbitrary(command).Keys(key).Args(args...).Build()).AsInt64()
}

func (h sessionsHarness) Age(ctx context.Context, of sessions.Ref, d time.Duration) error {
	key := h.store.key(of)
	seconds := strconv.FormatInt(-int64(d.Seconds()), 10)
	for _, field := range []string{"created_at", "last_activity"} {
		if _, err := h.do(ctx, "HINCRBY", key, field, seconds); err != nil {
			return err
		}
	}
	ttl, err := h.do(ctx, "PTTL", key)
	if err != nil {
		return err
	}
	_, err = h.do(ctx, "PEXPIRE", key, strconv.FormatInt(ttl-d.Milliseconds(), 10))
	return err
}

type settingsHarness struct {
	store  *Settings
	client rueidis.Client
}

func (h settingsHarness) Store() records.SettingStore { return h.store }

func (h settingsHarness) Lose(ctx context.Context, name string) error {
	key := spelled(h.store.conn, "env_vars:{"+name+"}", "env_vars:"+name)
	return h.client.Do(ctx, h.client.B().Del().Key(key).Build()).Error()
}

// Age moves the marks into the past.
func (h settingsHarness) Age(ctx context.Context, d time.Duration) error {
	const script = `
for i, value in ipairs(redis.call('HGETALL', KEYS[1])) do
  if i % 2 == 0 then
    local name = redis.call('HGETALL', KEYS[1])[i - 1]
    redis.call('HSET', KEYS[1], name, (string.gsub(value, '%d+', function(at) return string.format('%d', at - ARGV[1]) end)))
  end
end
return 1`
	c := h.client
	return c.Do(ctx, c.B().Eval().Script(script).Numkeys(1).Key(h.store.conn.Prefix()+"env_vars").Arg(
		fmt.Sprint(d.Microseconds())).Build()).Error()
}

type tokensHarness struct {
	t     testing.TB
	redis storagetest.Redis
	store *Tokens
}

func (h tokensHarness) Store() tokens.Store { return h.store }

// Pass shortens the lives of the store's keys. More than one node may list a key.
func (h tokensHarness) Pass(ctx context.Context, d time.Duration) error {
	var found []string
	for _, node := range h.redis.Client.Nodes() {
		keys, err := node.Do(ctx, node.B().Keys().Pattern(h.store.conn.Prefix()+"*").Build()).AsStrSlice()
		if err != nil {
			return err
		}
		found = append(found, keys...)
	}
	slices.Sort(found)
	for _, key := range slices.Compact(found) {
		c := h.redis.Client
		ttl, err := c.Do(ctx, c.B().Pttl().Key(key).Build()).AsInt64()
		if err != nil {
			return err
		}
		require.NotEqual(h.t, int64(-1), ttl, "%s has no end", key)
		if err := c.Do(ctx, c.B().Pexpire().Key(key).Milliseconds(ttl-d.Milliseconds()).Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}

type countersHarness struct {
	store *Counters
	conn  *redis.Conn
}

func (h countersHarness) Views() records.ViewStore { return h.store }

func (h countersHarness) Stats() records.StatsStore { return h.store }

func (h countersHarness) States() records.StateStore { return h.store.States() }

func (h countersHarness) do(ctx context.Context, command, key string, args ...string) error {
	c := h.conn.Client()
	return c.Do(ctx, c.B().Arbitrary(command).Keys(key).Args(args...).Build()).Error()
}

func (h countersHarness) SpoilViews(ctx context.Context, id string) error {
	return h.do(ctx, "RPUSH", spelled(h.conn, "viewed:{"+id+"}", "viewed:"+id), "x")
}

func (h countersHarness) Earlier(ctx context.Context, of records.Series, start time.Time, value int64) error {
	window, n := ":"+of.Timeframe.Name+":"+strconv.FormatInt(start.Unix(), 10), strconv.FormatInt(value, 10)
	if of.Fields {
		return h.do(ctx, "HSET", spelled(h.conn, "stats:{a%7D:%7Bb}", "stats:a%7D%3A%7Bb")+window, "a", n)
	}
	return h.do(ctx, "SET", spelled(h.conn, "metrics:{a%7D:%7Bb}", "metrics:a%7D%3A%7Bb")+window, n)
}
