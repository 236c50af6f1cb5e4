package leases_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

func (h *harness) do(t *testing.T, command ...string) string {
	t.Helper()
	text, err := h.client.Do(t.Context(), h.client.B().Arbitrary(command[0]).Args(command[1:]...).Build()).ToAny()
	require.NoError(t, err, command)
	return fmt.Sprint(text)
}

func (h *harness) acquire(t *testing.T, name, token string) uint64 {
	t.Helper()
	fence, err := h.store.Acquire(t.Context(), lease.Request{Name: name, Token: token, TTL: time.Minute})
	require.NoError(t, err)
	return fence
}

// The key has the documented value, and expires after the lease.
func TestTheKeyOfALease(t *testing.T) {
	t.Parallel()
	h := open(t, redistest.Standalone(t).URL())
	keep := func() time.Duration {
		ms := h.do(t, "PTTL", h.key("job"))
		d, err := time.ParseDuration(ms + "ms")
		require.NoError(t, err)
		return d
	}
	fence := h.acquire(t, "job", "a")
	require.Regexp(t, fmt.Sprintf(`^%d \d{13} a$`, fence), h.do(t, "GET", h.key("job")))
	require.InDelta(t, fence, time.Now().UnixMicro(), float64(time.Minute.Microseconds()), "the time of Redis")
	require.Greater(t, keep(), time.Hour)
	require.LessOrEqual(t, keep(), time.Hour+time.Minute)
	require.NoError(t, h.store.Release(t.Context(), "job", "a"))
	require.Equal(t, fmt.Sprintf("%d 0 a", fence), h.do(t, "GET", h.key("job")))
	require.LessOrEqual(t, keep(), time.Hour)
	require.Equal(t, "["+h.key("job")+"]", h.do(t, "KEYS", h.prefix+"*"))
}

// After Redis's clock was set back the last fence is in the future. The key stays until that time has come.
func TestFencesRiseWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	h := open(t, redistest.Standalone(t).URL())
	later := time.Now().Add(24 * time.Hour)
	h.do(t, "SET", h.key("job"), fmt.Sprintf("%d 0 a", later.UnixMicro()), "PX", "1000000")
	for i := range 3 {
		require.EqualValues(t, later.UnixMicro()+int64(i)+1, h.acquire(t, "job", "b"))
		require.NoError(t, h.store.Release(t.Context(), "job", "b"))
		ends := h.do(t, "PEXPIRETIME", h.key("job"))
		require.Equal(t, fmt.Sprint(later.Add(time.Hour).UnixMilli()), ends)
	}
}

func TestErrorsOfRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	h := open(t, node.URL())
	h.do(t, "SET", h.key("odd"), "not a lease", "PX", "60000")
	require.Positive(t, h.acquire(t, "odd", "a"), "a value that can't be read counts as none")

	request := []lease.Request{{Name: "job", Token: "a", TTL: time.Minute}}
	h.do(t, "RPUSH", h.key("job"), "x")
	var failure *fault.Error
	_, err := h.store.Acquire(t.Context(), request[0])
	require.ErrorAs(t, err, &failure)
	require.Equal(t, fault.Internal, failure.Kind)
	require.ErrorAs(t, h.store.Renew(t.Context(), request)[0], &failure)
	h.do(t, "DEL", h.key("job"))

	fence := h.acquire(t, "job", "a")
	h.do(t, "CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, h.store.Renew(t.Context(), request)[0], "a full Redis keeps its leases")
	require.Equal(t, fence, h.acquire(t, "job", "a"))
	require.NoError(t, h.store.Release(t.Context(), "job", "a"))
}

// A user of Redis that may not publish can't release, and nothing is changed.
func TestRights(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	admin := open(t, node.URL())
	admin.do(t, "ACL", "SETUSER", "mute", "on", ">secret", "allkeys", "resetchannels", "+@all")
	conn, err := redis.Connect(t.Context(), redis.Options{URL: node.URL(), KeyPrefix: admin.prefix, Username: "mute",
		Password: "secret", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	mute := &harness{store: leases.New(conn), client: conn.Client(), prefix: admin.prefix}
	mute.acquire(t, "job", "a")
	before := admin.do(t, "GET", admin.key("job"))
	require.ErrorIs(t, mute.store.Release(t.Context(), "job", "a"), fault.ErrUnavailable)
	require.Equal(t, before, admin.do(t, "GET", admin.key("job")))
}
