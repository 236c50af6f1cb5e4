package shards_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func member(host string) shard.Member {
	return shard.Member{Cache: "c", DC: "a", Host: host, Address: host + ":1"}
}

func (h *harness) do(t *testing.T, command ...string) string {
	t.Helper()
	got, err := h.client.Do(t.Context(), h.client.B().Arbitrary(command[0]).Args(command[1:]...).Build()).ToAny()
	require.NoError(t, err, command)
	return fmt.Sprint(got)
}

func (h *harness) split(t *testing.T, generation uint64, n int) {
	t.Helper()
	_, err := h.store.SetLayout(t.Context(), "c", "a", generation, shard.Even(n))
	require.NoError(t, err)
}

func (h *harness) claim(t *testing.T, host string) shard.Claimed {
	t.Helper()
	c, err := h.store.Claim(t.Context(), member(host), host, time.Minute, shard.Claimed{})
	require.NoError(t, err)
	return c
}

// The keys have the contents that the page documents.
func TestValues(t *testing.T) {
	t.Parallel()
	h := open(t, redistest.Standalone(t).URL())
	h.split(t, 0, 2)
	c := h.claim(t, "x")
	require.Regexp(t, fmt.Sprintf(`^map\[generation:1 incarnation:%d run:[0-9a-f]{40} since:0 starts:0{16} 80{15}\]$`,
		c.Incarnation),
		h.do(t, "HGETALL", h.key("c", "layout.a")))
	own := func(loaded int) string {
		return fmt.Sprintf(`^\d{13} \d{13} 0 1 %d \d{13} %d x x:1$`, c.Incarnation, loaded)
	}
	require.Regexp(t, own(0), h.do(t, "HGET", h.key("c", "shards.a"), "x"))
	require.NoError(t, h.store.Ping(t.Context(), member("x"), "x", time.Minute, true))
	require.Regexp(t, own(1), h.do(t, "HGET", h.key("c", "shards.a"), "x"))
	require.NoError(t, h.store.Leave(t.Context(), member("x"), "x"))
	require.Regexp(t, `^0 \d{13} 0 1 `, h.do(t, "HGET", h.key("c", "shards.a"), "x"))
	require.Equal(t, "[a]", h.do(t, "SMEMBERS", h.key("c", "dcs")))
	require.Len(t, strings.Fields(h.do(t, "KEYS", h.prefix+"*")), 3)
	ends, err := time.ParseDuration(h.do(t, "PTTL", h.key("c", "shards.a")) + "ms")
	require.NoError(t, err)
	require.InDelta(t, 7*24*time.Hour, ends, float64(3*time.Hour))
	for _, permanent := range []string{"dcs", "layout.a"} {
		require.Equal(t, "-1", h.do(t, "PTTL", h.key("c", permanent)))
	}
	h.do(t, "PEXPIRE", h.key("c", "shards.a"), "1000000")
	h.claim(t, "y")
	require.Greater(t, h.do(t, "PTTL", h.key("c", "shards.a")), "600000000", "a claim prolongs it")
	h.do(t, "PEXPIRE", h.key("c", "shards.a"), "1000000")
	require.NoError(t, h.store.Ping(t.Context(), member("y"), "y", time.Minute, true))
	require.Greater(t, h.do(t, "PTTL", h.key("c", "shards.a")), "600000000", "and a ping")
}

// There are never more fields than documented, however many hosts have had a shard.
func TestManyHosts(t *testing.T) {
	t.Parallel()
	h := open(t, redistest.Standalone(t).URL())
	h.split(t, 0, 2)
	h.claim(t, "alive")
	for i := range 250 {
		host := fmt.Sprint("h", i)
		h.claim(t, host)
		require.NoError(t, h.store.Leave(t.Context(), member(host), host))
	}
	var fields int
	_, err := fmt.Sscan(h.do(t, "HLEN", h.key("c", "shards.a")), &fields)
	require.NoError(t, err)
	require.LessOrEqual(t, fields, 103)
	require.NoError(t, h.store.Ping(t.Context(), member("alive"), "alive", time.Minute, true))
}

// After Redis's clock was set back the last incarnation is in the future.
func TestIncarnationsRiseWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	h := open(t, redistest.Standalone(t).URL())
	h.split(t, 0, 2)
	later := time.Now().Add(24 * time.Hour).UnixMicro()
	h.do(t, "HSET", h.key("c", "layout.a"), "incarnation", fmt.Sprint(later))
	for i, host := range []string{"x", "y"} {
		require.EqualValues(t, later+int64(i)+1, h.claim(t, host).Incarnation)
	}
}

// Holders that haven't changed aren't read again.
func TestHosts(t *testing.T) {
	t.Parallel()
	h := open(t, redistest.Standalone(t).URL())
	list := h.store.Hosts("c")
	expect := func(addresses ...string) {
		t.Helper()
		found, err := list.Hosts(t.Context())
		require.NoError(t, err)
		var got []string
		for _, host := range found {
			got = append(got, host.Address)
		}
		require.ElementsMatch(t, addresses, got)
	}
	h.split(t, 0, 3)
	h.claim(t, "x")
	expect("x:1")
	x := h.do(t, "HGET", h.key("c", "shards.a"), "x")
	h.do(t, "HSET", h.key("c", "shards.a"), "odd", strings.ReplaceAll(x, " 0 x x:1", " 0 odd odd:1"))
	expect("x:1")
	h.claim(t, "y")
	expect("x:1", "y:1", "odd:1")
	require.NoError(t, h.store.Leave(t.Context(), member("x"), "x"))
	expect("y:1", "odd:1")
	h.do(t, "DEL", h.key("c", "layout.a"), h.key("c", "shards.a"))
	expect()
}

// A primary that was promoted or started grants no shard for a while.
func TestAnotherPrimary(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{Args: []string{"--appendonly", "yes"}})
	replica := redistest.StartReplica(t, node)
	h := open(t, node.URL())
	h.split(t, 0, 3)
	x := h.claim(t, "x")
	storetest.WaitFor(t, "the replica has the claim", func() bool {
		has, err := replica.Do(t, "HEXISTS", h.key("c", "shards.a"), "x").AsBool()
		return err == nil && has
	})
	require.NoError(t, replica.Do(t, "REPLICAOF", "NO", "ONE").Error())
	conn := storetest.Connect(t, redis.Options{URL: replica.URL(), KeyPrefix: h.prefix})
	promoted := &harness{store: shards.New(conn), client: conn.Client(), prefix: h.prefix}
	h.claim(t, "y")
	node.Stop(t)
	node.Restart(t)
	for name, h := range map[string]*harness{"promoted": promoted, "started": h} {
		require.Equal(t, x, h.claim(t, "x"), name)
		require.NoError(t, h.store.Ping(t.Context(), member("x"), "x", time.Minute, true), name)
		for range 2 {
			_, err := h.store.Claim(t.Context(), member("z"), "z", time.Minute, shard.Claimed{})
			require.ErrorIs(t, err, shard.ErrUnsure, name)
		}
		require.NoError(t, h.Pass(t.Context(), "c", "a", 90*time.Second))
		h.claim(t, "z")
		h.claim(t, "w")
	}
}

// Fields that weren't written by a script are ignored.
func TestOddFields(t *testing.T) {
	t.Parallel()
	h := open(t, redistest.Standalone(t).URL())
	h.split(t, 0, 1)
	for i, odd := range []string{"", "x", "1 2 3", "-1 2 0 1 5 6 0 t a:1", "99999999999999 1 0 1 x 6 0 t a:1",
		"99999999999999 1 7 1 5 6 0 t"} {
		h.do(t, "HSET", h.key("c", "shards.a"), fmt.Sprint("odd", i), odd)
	}
	h.do(t, "SADD", h.key("c", "dcs"), "odd\n")
	found, err := h.store.Status(t.Context(), "c")
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, shard.Holder{Generation: 1}, found[0].Shards[0])
	hosts, err := h.store.Hosts("c").Hosts(t.Context())
	require.NoError(t, err)
	require.Empty(t, hosts)
	require.Equal(t, 0, h.claim(t, "odd1").Shard)
	h.do(t, "HSET", h.key("c", "shards.a"), "\x1b[2J", "99999999999999 1 0 1 9007199254740992 6 1 t a:1",
		"y", "99999999999999 1 0 1 9007199254740992 6 1 t \x1b[2J:1")
	found, err = h.store.Status(t.Context(), "c")
	require.NoError(t, err)
	require.Equal(t, "odd1", found[0].Shards[0].Host)
	h.do(t, "HSET", h.key("c", "layout.a"), "starts", "4000000000000000")
	_, err = h.store.Status(t.Context(), "c")
	require.ErrorIs(t, err, shard.ErrLayout, "a gap")
}

// Of former holders only the last one wakes those that wait.
func TestNotifications(t *testing.T) {
	t.Parallel()
	conn, _ := storetest.Standalone(t)
	h := &harness{store: shards.New(conn), client: conn.Client(), prefix: conn.Prefix()}
	h.split(t, 0, 2)
	h.claim(t, "x")
	h.claim(t, "y")
	h.split(t, 1, 2)
	started, texts := make(chan struct{}, 1), make(chan string, 10)
	defer conn.Listen(h.key("c", "changed.a"), pubsub.Listener{Confirmed: func() { started <- struct{}{} },
		Message: func(text string) { texts <- text }})()
	<-started
	for _, host := range []string{"x", "y"} {
		require.NoError(t, h.store.Leave(t.Context(), member(host), host))
	}
	h.split(t, 2, 1)
	require.Equal(t, "free", <-texts)
	require.Equal(t, "layout", <-texts)
}

func TestErrorsOfRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	h := open(t, node.URL())
	h.split(t, 0, 2)
	h.claim(t, "x")
	h.do(t, "CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, h.store.Ping(t.Context(), member("x"), "x", time.Minute, true), "a full Redis keeps its holders")
	h.claim(t, "y")
	require.NoError(t, h.store.Leave(t.Context(), member("x"), "x"))
	_, err := h.store.SetLayout(t.Context(), "c", "a", 1, shard.Even(3))
	storetest.RequireFull(t, err)
	h.do(t, "CONFIG", "SET", "maxmemory", "0")

	h.do(t, "DEL", h.key("c", "layout.a"))
	require.ErrorIs(t, h.store.Ping(t.Context(), member("y"), "y", time.Minute, true), shard.ErrMoved,
		"a layout that is lost")
	_, err = h.store.SetLayout(t.Context(), "c", "a", 0, shard.Even(1))
	require.ErrorIs(t, err, shard.ErrInUse)

	h.do(t, "ACL", "SETUSER", "mute", "on", ">secret", "allkeys", "resetchannels", "+@all")
	mute := shards.New(storetest.Connect(t, redis.Options{URL: node.URL(), KeyPrefix: h.prefix, Username: "mute",
		Password: "secret"}))
	before := storetest.Dump(t, node)
	require.ErrorIs(t, mute.Leave(t.Context(), member("y"), "y"), fault.ErrUnavailable)
	_, err = mute.SetLayout(t.Context(), "c", "b", 0, shard.Even(1))
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.ErrorIs(t, mute.Remove(t.Context(), "c", "b"), fault.ErrUnavailable)
	require.Equal(t, before, storetest.Dump(t, node), "nothing was written")

	h.do(t, "DEL", h.key("c", "shards.a"))
	h.do(t, "RPUSH", h.key("c", "shards.a"), "x")
	h.do(t, "HSET", h.key("c", "layout.a"), "generation", "1", "starts", "0000000000000000")
	var failure *fault.Error
	for name, err := range map[string]error{
		"claim":  storagetest.ErrorOf(h.store.Claim(t.Context(), member("x"), "z", time.Minute, shard.Claimed{})),
		"ping":   h.store.Ping(t.Context(), member("x"), "x", time.Minute, true),
		"leave":  h.store.Leave(t.Context(), member("x"), "x"),
		"set":    storagetest.ErrorOf(h.store.SetLayout(t.Context(), "c", "a", 1, shard.Even(2))),
		"remove": h.store.Remove(t.Context(), "c", "a"),
		"status": storagetest.ErrorOf(h.store.Status(t.Context(), "c")),
		"hosts":  storagetest.ErrorOf(h.store.Hosts("c").Hosts(t.Context())),
	} {
		require.ErrorAs(t, err, &failure, name)
		require.Equal(t, fault.Internal, failure.Kind, name)
		require.NotErrorIs(t, err, lease.ErrLost, name)
	}
}
