package records_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	domain "github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	"github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/leasetest"
)

type locksHarness struct {
	*leases.Store
	conn *redis.Conn
}

func open(t testing.TB, url string) *locksHarness {
	t.Helper()
	conn := storetest.Connect(t, redis.Options{URL: url, KeyPrefix: redistest.Prefix(t)})
	return &locksHarness{Store: records.NewLocks(conn), conn: conn}
}

// TestLocksConformance: locks follow all rules of leases, with the keys of Discours.io.
func TestLocksConformance(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		leasetest.Run(t, func(t testing.TB) leasetest.Harness { return suite{open(t, r.URL)} })
		t.Run("what a lock is shown as", func(t *testing.T) {
			t.Parallel()
			show(t, open(t, r.URL))
		})
	})
	t.Run("plain keys", func(t *testing.T) {
		t.Parallel()
		leasetest.Run(t, func(t testing.TB) leasetest.Harness { return suite{openPlain(t)} })
	})
}

// openPlain returns locks with plain keys.
func openPlain(t testing.TB) *locksHarness {
	t.Helper()
	conn := storetest.Connect(t, redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t),
		Timeout: storetest.Patience, PlainKeys: true})
	return &locksHarness{Store: records.NewLocks(conn), conn: conn}
}

// suite is a harness for the suite. The names of its leases are IDs of locks.
type suite struct{ *locksHarness }

func (s suite) Store() lease.Store { return s }

func (s suite) Acquire(ctx context.Context, r lease.Request) (fence uint64, err error) {
	r.Name = lockOf(r.Name)
	return s.locksHarness.Acquire(ctx, r)
}

func (s suite) Renew(ctx context.Context, rs []lease.Request) []error {
	rs = slices.Clone(rs)
	for i := range rs {
		rs[i].Name = lockOf(rs[i].Name)
	}
	return s.locksHarness.Renew(ctx, rs)
}

func (s suite) Release(ctx context.Context, name, token string) error {
	return s.locksHarness.Release(ctx, lockOf(name), token)
}

func (s suite) Watch(name string, freed func()) (stop func()) {
	return s.locksHarness.Watch(lockOf(name), freed)
}

func (s suite) Forget(ctx context.Context, name string) error {
	for _, key := range []string{lockOf(name), fenceOf(lockOf(name))} {
		if err := s.do(ctx, "DEL", key).Error(); err != nil {
			return fmt.Errorf("forget %s: %w", name, err)
		}
	}
	return nil
}

func lockOf(id string) string { return domain.LockKind.Key("op", id) }

// fenceOf spells the key of the fence out, so that it doesn't follow a mistake of the store.
func fenceOf(name string) string { return strings.Replace(name, "lock:", "lock_fence:", 1) }

// do runs a command whose first argument is a key.
func (h *locksHarness) do(ctx context.Context, command, key string, args ...string) rueidis.RedisResult {
	if h.conn.PlainKeys() {
		key = strings.NewReplacer("{", "", "}", "").Replace(key)
	}
	c := h.conn.Client()
	return c.Do(ctx, c.B().Arbitrary(command).Keys(h.conn.Prefix()+key).Args(args...).Build())
}

func (h *locksHarness) ttl(t *testing.T, key string) time.Duration {
	t.Helper()
	ms, err := h.do(t.Context(), "PTTL", key).AsInt64()
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// TestTheKeyOfALock: the key exists while the lock is held, so that EXISTS and TTL are right. The fence stays for an
// hour.
func TestTheKeyOfALock(t *testing.T) {
	t.Parallel()
	h, name := open(t, redistest.Standalone(t).URL()), domain.LockKind.Key("resize", "7")
	require.Equal(t, fenceOf(name), domain.LockFenceKind.Key("resize", "7"))
	none := -2 * time.Millisecond
	r := lease.Request{Name: name, Token: "a", TTL: 30 * time.Second}
	for range 2 {
		granted, err := h.Grant(t.Context(), r)
		require.NoError(t, err)
		require.Positive(t, h.ttl(t, name))
		require.LessOrEqual(t, h.ttl(t, name), r.TTL)
		require.Greater(t, h.ttl(t, fenceOf(name)), time.Hour)
		require.LessOrEqual(t, h.ttl(t, fenceOf(name)), time.Hour+r.TTL)
		kept, err := h.do(t.Context(), "GET", fenceOf(name)).ToString()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%d 0 ", granted.Fence), kept)

		require.NoError(t, h.Release(t.Context(), name, "a"))
		require.Equal(t, none, h.ttl(t, name))
		require.Positive(t, h.ttl(t, fenceOf(name)))
		require.LessOrEqual(t, h.ttl(t, fenceOf(name)), time.Hour)
		kept, err = h.do(t.Context(), "GET", fenceOf(name)).ToString()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%d 0 a", granted.Fence), kept)
	}
	_, err := h.Grant(t.Context(), lease.Request{Name: name, Token: "brief", TTL: time.Millisecond})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return h.ttl(t, name) == none }, storagetest.Patience, time.Millisecond)
	require.ErrorIs(t, h.Release(t.Context(), name, "brief"), lease.ErrLost, "it has ended before")
}

// TestLockOfAnotherProgram: a lock that an application has written itself, as Discours.io does, is held until it ends.
// Nobody can renew or release it here, also not who has released the lock before.
func TestLockOfAnotherProgram(t *testing.T) {
	t.Parallel()
	h, name := openPlain(t), domain.LockKind.Key("resize", "7")
	mine := lease.Request{Name: name, Token: "mine", TTL: time.Minute}
	before, err := h.Grant(t.Context(), mine)
	require.NoError(t, err)
	require.NoError(t, h.Release(t.Context(), name, "mine"))

	for _, life := range []struct {
		set []string
		end time.Duration
	}{{[]string{"locked", "NX", "EX", "30"}, 30 * time.Second}, {[]string{"1", "XX"}, time.Hour},
		{[]string{"", "XX", "EX", "7200"}, time.Hour}} {
		require.NoError(t, h.do(t.Context(), "SET", name, life.set...).Error())
		var held *lease.HeldError
		_, err = h.Grant(t.Context(), mine)
		require.ErrorAs(t, err, &held)
		require.LessOrEqual(t, held.For, life.end)
		require.Greater(t, held.For, life.end-30*time.Second)
		_, err = h.Prolong(t.Context(), mine)
		require.ErrorIs(t, err, lease.ErrLost)
		require.ErrorIs(t, h.Release(t.Context(), name, "mine"), lease.ErrLost)
		shown, err := h.Show(t.Context(), name)
		require.NoError(t, err)
		require.Zero(t, shown.Fence)
		require.WithinDuration(t, time.Now().Add(life.end), shown.Until, 30*time.Second)
		text, err := h.do(t.Context(), "GET", name).ToString()
		require.NoError(t, err)
		require.Equal(t, life.set[0], text)
	}
	require.NoError(t, h.do(t.Context(), "DEL", name).Error())
	after, err := h.Grant(t.Context(), mine)
	require.NoError(t, err)
	require.Greater(t, after.Fence, before.Fence)
	refused := h.do(t.Context(), "SET", name, "locked", "NX", "EX", "30").Error()
	require.True(t, rueidis.IsRedisNil(refused), "SET NX finds the lock: %v", refused)
}

// TestFencesOfLocksRise: fences rise also after Redis's clock was set back, while the last one is kept.
func TestFencesOfLocksRise(t *testing.T) {
	t.Parallel()
	h, name := open(t, redistest.Standalone(t).URL()), domain.LockKind.Key("resize", "7")
	later := time.Now().Add(24 * time.Hour)
	require.NoError(t, h.do(t.Context(), "SET", fenceOf(name), fmt.Sprintf("%d 0 ", later.UnixMicro())).Error())
	for i := range int64(3) {
		granted, err := h.Grant(t.Context(), lease.Request{Name: name, Token: "b", TTL: time.Minute})
		require.NoError(t, err)
		require.EqualValues(t, later.UnixMicro()+i+1, granted.Fence)
		require.NoError(t, h.Release(t.Context(), name, "b"))
		ends, err := h.do(t.Context(), "PEXPIRETIME", fenceOf(name)).AsInt64()
		require.NoError(t, err)
		require.Equal(t, later.Add(time.Hour).UnixMilli(), ends, "an hour after the time of the fence")
	}
}

// TestLocksOfAHalfMovedSlot: one that is held is renewed while its keys are on one node. Otherwise a call waits for the
// end of the move.
func TestLocksOfAHalfMovedSlot(t *testing.T) {
	t.Parallel()
	c := storetest.StartTwoNodes(t)
	s := records.NewLocks(c.Connect(t, redis.Options{Timeout: time.Minute}))
	mine := lease.Request{Name: domain.LockKind.Key("op", "1"), Token: "mine", TTL: time.Hour}
	free := lease.Request{Name: domain.LockKind.Key("op", "2"), Token: "other", TTL: time.Hour}
	held, err := s.Grant(t.Context(), mine)
	require.NoError(t, err)
	last, err := s.Grant(t.Context(), free)
	require.NoError(t, err)
	require.NoError(t, s.Release(t.Context(), free.Name, free.Token))
	grant := func(ctx context.Context) (lease.Holding, error) { return s.Grant(ctx, free) }

	move := c.OpenMove(t, "op")
	_, err = s.Prolong(t.Context(), mine)
	require.NoError(t, err)
	move.MoveKey(t, mine.Name)
	prolong := func(ctx context.Context) (lease.Holding, error) { return s.Prolong(ctx, mine) }
	storetest.RequireUnavailable(t, storagetest.ErrorOf(prolong(storetest.Shortly(t))))
	storetest.RequireUnavailable(t, s.Release(storetest.Shortly(t), mine.Name, mine.Token))
	move.MoveKey(t, fenceOf(mine.Name))
	prolonged, err := s.Prolong(t.Context(), mine)
	require.NoError(t, err)
	require.Equal(t, held.Fence, prolonged.Fence)
	storetest.RequireUnavailable(t, storagetest.ErrorOf(grant(storetest.Shortly(t))))
	move.CloseSlot(t)
	next, err := grant(t.Context())
	require.NoError(t, err)
	require.Greater(t, next.Fence, last.Fence)
}

// TestLocksBesideOlderServers: servers that keep the fence in the lock's own key, for an hour, and those that don't
// share locks. There is one holder at a time, and fences rise.
func TestLocksBesideOlderServers(t *testing.T) {
	t.Parallel()
	h := open(t, redistest.Standalone(t).URL())
	key := func(name string) string { return h.conn.Prefix() + name }
	servers := map[string]*leases.Store{
		"older": leases.NewLayout(h.conn, leases.Layout{Holder: key, Topic: key}), "newer": h.Store,
	}
	names, ids := []string{"newer", "older"}, 0
	rapid.Check(t, func(rt *rapid.T) {
		server := func(label string) *leases.Store { return servers[rapid.SampledFrom(names).Draw(rt, label)] }
		ids++
		r := lease.Request{Name: domain.LockKind.Key("op", strconv.Itoa(ids)), TTL: time.Minute}
		last := uint64(0)
		for i := range rapid.IntRange(1, 8).Draw(rt, "holders") {
			earlier, ends := r.Token, rapid.Bool().Draw(rt, "ends by itself")
			r.Token = fmt.Sprint("token", i)
			granted, err := server("grants").Grant(t.Context(), r)
			require.NoError(rt, err)
			require.Greater(rt, granted.Fence, last)
			last = granted.Fence
			if earlier != "" {
				require.ErrorIs(rt, server("releases another's").Release(t.Context(), r.Name, earlier), lease.ErrLost)
			}
			_, err = server("wants it, too").Grant(t.Context(), lease.Request{Name: r.Name, Token: "x", TTL: time.Minute})
			require.ErrorIs(rt, err, lease.ErrHeld)
			if ends {
				r.TTL = time.Millisecond
			}
			prolonged, err := server("renews").Prolong(t.Context(), r)
			r.TTL = time.Minute
			require.NoError(rt, err)
			require.Equal(rt, last, prolonged.Fence)
			if !ends {
				require.NoError(rt, server("releases").Release(t.Context(), r.Name, r.Token))
			}
			for shown := (lease.Holding{Until: prolonged.Until}); !shown.Until.IsZero(); {
				shown, err = server("shows").Show(t.Context(), r.Name)
				require.NoError(rt, err)
			}
		}
		shown, err := h.Show(t.Context(), r.Name)
		require.NoError(rt, err)
		require.Equal(rt, lease.Holding{Fence: last}, shown)
	})
}

func show(t *testing.T, h *locksHarness) {
	t.Helper()
	ctx, name := t.Context(), domain.LockKind.Key("re}size", "a:{b}")
	require.Equal(t, "lock:{re%7Dsize}:a:%7Bb%7D", name)
	free, err := h.Show(ctx, name)
	require.NoError(t, err)
	require.Zero(t, free)

	r := lease.Request{Name: name, Token: "token", TTL: time.Minute}
	granted, err := h.Grant(ctx, r)
	require.NoError(t, err)
	require.InDelta(t, granted.Fence/1000+60_000, granted.Until.UnixMilli(), 1, "both are Redis's time")
	held, err := h.Show(ctx, name)
	require.NoError(t, err)
	require.Equal(t, granted, held)

	r.TTL = time.Hour
	longer, err := h.Prolong(ctx, r)
	require.NoError(t, err)
	require.Equal(t, granted.Fence, longer.Fence)
	require.Greater(t, longer.Until, granted.Until.Add(50*time.Minute))
	require.LessOrEqual(t, h.ttl(t, name), domain.LockKind.TTL)
	require.LessOrEqual(t, h.ttl(t, fenceOf(name)), domain.LockFenceKind.TTL)
	require.NoError(t, h.Release(ctx, name, "token"))
	released, err := h.Show(ctx, name)
	require.NoError(t, err)
	require.Equal(t, lease.Holding{Fence: granted.Fence}, released)
	brief, err := h.Grant(ctx, lease.Request{Name: name, Token: "brief", TTL: time.Millisecond})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		ended, err := h.Show(ctx, name)
		return err == nil && ended == lease.Holding{Fence: brief.Fence}
	}, storagetest.Patience, time.Millisecond, "it has ended by itself")
	_, err = h.Prolong(ctx, r)
	require.ErrorIs(t, err, lease.ErrLost)
}
