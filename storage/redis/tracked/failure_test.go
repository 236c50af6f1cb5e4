package tracked_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// A connection that ends, and one that hangs, are reported. Changes made meanwhile are read.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(p *redistest.Proxy){
		"cut":   func(p *redistest.Proxy) { p.Refuse(true); p.Cut() },
		"hangs": func(p *redistest.Proxy) { p.Hold() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, redistest.Standalone(t))
			prefix := redistest.Prefix(t)
			r := open(t, storetest.Connect(t, redis.Options{URL: proxy.Addr(), KeyPrefix: prefix}), tracked.Options{})
			writer := storetest.Connect(t, redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: prefix})
			r.direct = writer.Client()
			r.do("SET", "k", "1")
			r.kept("k")
			r.forget()
			disturb(proxy)
			r.do("SET", "k", "2")
			r.await("")
			proxy.Refuse(false)
			proxy.Pass()
			require.Equal(t, "2", string(r.get("k").Bytes))
		})
	}
}

// While a slot moves, keys are read on both sides. Values read before, in the middle and after are reported when they
// change.
func TestSlotMove(t *testing.T) {
	t.Parallel()
	c := storetest.StartTwoNodes(t)
	r := open(t, c.Connect(t, redis.Options{}), tracked.Options{})
	r.do("SET", "{t}1", "old")
	r.do("SET", "{t}2", "old")
	r.kept("{t}1")
	r.forget()
	require.False(t, r.get("{t}3").Found, "nobody reports that it is created elsewhere")

	r.do("HSET", "{t}h", "f", "old")

	m := c.OpenMove(t, "t")
	m.MoveKey(t, "{t}1")
	r.await("{t}1")
	m.MoveKey(t, "{t}h")
	hash, _, err := r.HGetAll(t.Context(), "{t}h") // by a redirection
	require.NoError(t, err)
	require.Equal(t, map[string]string{"f": "old"}, hash)
	r.do("HSET", "{t}h", "f", "new")
	r.await("{t}h")
	require.Equal(t, "old", string(r.get("{t}1").Bytes)) // by a redirection
	require.False(t, r.Kept(t.Context(), "{t}1"), "what a redirection answered isn't kept")
	r.do("SET", "{t}1", "new")
	require.Equal(t, "new", string(r.get("{t}1").Bytes))
	require.Equal(t, "old", string(r.get("{t}2").Bytes))
	m.CloseSlot(t)
	r.await("{t}2")
	require.Equal(t, "old", string(r.get("{t}2").Bytes))
	r.do("SET", "{t}2", "new")
	r.becomes("{t}2", "new")
	r.do("SET", "{t}3", "new")
	r.becomes("{t}3", "new")
	r.becomes("{t}1", "new")
	r.kept("{t}1")
	r.forget()
	r.do("SET", "{t}1", "newest")
	r.await("{t}1")
	r.becomes("{t}1", "newest")
}

// A fail-over loses writes that the replica didn't have. No old value is answered after it.
func TestFailover(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t, redistest.Options{Primaries: 3, Replicas: 1})
		r := open(t, storetest.Connect(t, redis.Options{URL: strings.Join(c.Addrs(), ","),
			Timeout: storetest.Patience}), tracked.Options{})
		failOver(t, r, func(write func()) {
			storetest.WaitFor(t, "the replica to have the first value", func() bool {
				size, err := c.Replica(t, c.Slot("k")).Do(t, "DBSIZE").AsInt64()
				require.NoError(t, err)
				return size == 1
			})
			c.FailoverThatLoses(t, c.Slot("k"), write)
		})
		r.kept("k")
		r.forget()
		r.do("SET", "k", "newest")
		r.await("k")
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		g := redistest.StartSentinel(t, redistest.Options{})
		r := open(t, storetest.Connect(t, redis.Options{
			URL: strings.Join(g.Addrs(), ","), Sentinel: redis.Sentinel{Master: redistest.MasterName},
			Timeout: storetest.Patience,
		}), tracked.Options{})
		failOver(t, r, func(write func()) {
			write()
			g.Failover(t)
			r.do("SET", "k", "new")
		})
	})
}

func failOver(t *testing.T, r *reader, failOver func(write func())) {
	t.Helper()
	r.do("SET", "k", "new")
	r.kept("k")
	r.forget()
	failOver(func() {
		r.do("SET", "k", "lost")
		r.becomes("k", "lost")
		r.kept("k")
	})
	r.await("")
	r.becomes("k", "new")
}

// A switch-over keeps the connections: the old primary reports changes as a replica.
func TestSwitchover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{Primaries: 3, Replicas: 1})
	r := open(t, storetest.Connect(t, redis.Options{URL: strings.Join(c.Addrs(), ","), Timeout: storetest.Patience}),
		tracked.Options{})
	r.do("SET", "k", "1")
	r.kept("k")
	r.forget()
	c.Switchover(t, c.Slot("k"))
	r.do("SET", "k", "2")
	storetest.WaitFor(t, "the change or a loss to be reported", func() bool { return len(r.changed)+len(r.lost) > 0 })
	r.becomes("k", "2")
}

// A full Redis can't track keys. It is read every time then.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	r := open(t, storetest.Connect(t, redis.Options{URL: node.URL()}), tracked.Options{})
	r.do("SET", "k", "1")
	r.do("HSET", "h", "f", "v")
	storetest.Set(t, node, "maxmemory", "1")
	require.Equal(t, "1", string(r.get("k").Bytes))
	require.False(t, r.Kept(t.Context(), "k"))
	many, err := r.GetMany(t.Context(), []string{"none", "k"})
	require.NoError(t, err)
	require.Equal(t, "1", string(many[1].Bytes))
	hash, _, err := r.HGetAll(t.Context(), "h")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"f": "v"}, hash)
	r.do("DEL", "k")
	require.False(t, r.get("k").Found)
}

// A Redis that refuses a part of client-side caching is read each time: what it has now is answered.
func TestRefused(t *testing.T) {
	t.Parallel()
	user := func(rule string) []string {
		return []string{"ACL", "SETUSER", "svc", "on", ">secret", "~*", "&*", "+@all", rule}
	}
	for name, c := range map[string]struct {
		args []string // of the server
		user []string // command that makes one
		says string
	}{
		"RESP3":           {[]string{"--rename-command", "HELLO", ""}, nil, "RESP3"},
		"CLIENT":          {[]string{"--rename-command", "CLIENT", ""}, nil, "unknown command 'CLIENT'"},
		"MULTI":           {[]string{"--rename-command", "MULTI", ""}, nil, "unknown command 'MULTI'"},
		"EXEC":            {[]string{"--rename-command", "EXEC", ""}, nil, "unknown command 'EXEC'"},
		"CLIENT TRACKING": {nil, user("-client|tracking"), "'client|tracking'"},
		"rights to MULTI": {nil, user("-multi"), "'multi'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := redistest.Start(t, redistest.Options{Args: c.args})
			url := n.URL()
			if c.user != nil {
				require.NoError(t, n.Do(t, c.user...).Error())
				url = "redis://svc:secret@" + n.Addr()
			}
			conn := storetest.Connect(t, redis.Options{URL: url, KeyPrefix: "p:"})
			var refused *tracked.RefusedError
			require.ErrorAs(t, tracked.Check(t.Context(), conn), &refused)
			require.ErrorContains(t, refused, c.says)
			require.NotContains(t, refused.Error(), "ClientOption", "advice for programmers")
			r := open(t, conn, tracked.Options{})
			require.False(t, r.Tracks())
			require.Equal(t, tracked.Entry{}, r.get("a"))
			for _, value := range []string{"1", "2"} {
				r.do("SET", "a", value)
				require.Equal(t, tracked.Entry{Found: true, Bytes: []byte(value)}, r.get("a"))
			}
			r.do("HSET", "h", "f", "v")
			fields, _, err := r.HGetAll(t.Context(), "h")
			require.NoError(t, err)
			require.Equal(t, map[string]string{"f": "v"}, fields)
			require.NoError(t, r.Settle(t.Context(), "a"))
			r.Close()
			require.NoError(t, conn.Ready(t.Context()), "the connection is not the client's to close")
		})
	}
	conn, _ := storetest.Standalone(t)
	require.NoError(t, tracked.Check(t.Context(), conn))
}
