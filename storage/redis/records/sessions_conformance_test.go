package records

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records/sessions"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/storagetest"
	"github.com/tidemark-dev/tidemark/storage/storagetest/recordstest"
)

func TestSessionsConformance(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		recordstest.RunSessions(t, func(t testing.TB) recordstest.SessionHarness {
			t.Helper()
			conn := storetest.Connect(t, redis.Options{URL: r.URL, KeyPrefix: redistest.Prefix(t)})
			return sessionsHarness{NewSessions(conn)}
		})
	})
}

// sessionsHarness is a store with a key prefix of its own. It spells the source's keys out, so that it doesn't follow a mistake
// of the store.
type sessionsHarness struct{ store *Sessions }

func (h sessionsHarness) Store() sessions.Store { return h.store }

func (h sessionsHarness) do(ctx context.Context, command, key string, args ...string) (int64, error) {
	c := h.store.conn.Client()
	return c.Do(ctx, c.B().Arbitrary(command).Keys(key).Args(args...).Build()).AsInt64()
}

func (h sessionsHarness) Age(ctx context.Context, of sessions.Ref, d time.Duration) error {
	key := h.store.keys.session(of)
	seconds := strconv.FormatInt(-int64(d.Seconds()), 10)
	for _, field := range []string{"created_at", "last_activity"} {
		if _, err := h.do(ctx, "HINCRBY", key, field, seconds); err != nil {
			return err
		}
	}
	left, err := h.do(ctx, "PTTL", key)
	if err != nil {
		return err
	}
	_, err = h.do(ctx, "PEXPIRE", key, strconv.FormatInt(left-d.Milliseconds(), 10))
	return err
}

func (h sessionsHarness) source(l sessions.Legacy) (legacy, hash, set string) {
	p := h.store.conn.Prefix()
	return p + l.User + "-" + l.Username + "-" + l.Token, p + "session:" + l.User + ":" + l.Token,
		p + "user_sessions:" + l.User
}

func (h sessionsHarness) PutSource(ctx context.Context, l sessions.Legacy, fields map[string]string) error {
	legacy, hash, set := h.source(l)
	var err error
	if fields == nil {
		_, err = h.do(ctx, "SETNX", legacy, "x")
	}
	for name, value := range fields {
		_, err = h.do(ctx, "HSET", hash, name, value)
	}
	if err == nil {
		_, err = h.do(ctx, "SADD", set, l.Token)
	}
	return err
}

func (h sessionsHarness) Source(ctx context.Context, l sessions.Legacy) (int, error) {
	legacy, hash, set := h.source(l)
	one, err := h.do(ctx, "EXISTS", legacy)
	if err != nil {
		return 0, err
	}
	two, err := h.do(ctx, "EXISTS", hash)
	if err != nil {
		return 0, err
	}
	three, err := h.do(ctx, "SISMEMBER", set, l.Token)
	return int(one + two + three), err
}
