package redis_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestPasswordThatChanges: new connections log in with the password of their time, and with the last one while it can't
// be read.
func TestPasswordThatChanges(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	admin := func(command ...string) { require.NoError(t, n.Do(t, command...).Error()) }
	admin("ACL", "SETUSER", "svc", "on", ">first", "~*", "&*", "+@all")
	var password atomic.Value // string; "": it can't be read
	password.Store("first")
	conn := storetest.Connect(t, redis.Options{
		URL: n.URL(), Username: "svc", Timeout: storetest.Patience,
		ReadPassword: func() (string, error) {
			text := password.Load().(string)
			if text == "" {
				return "", errors.New("the file is gone")
			}
			return text, nil
		},
	})
	works := func() {
		t.Helper()
		admin("CLIENT", "KILL", "USER", "svc")
		storetest.WaitFor(t, "a new connection", func() bool {
			c := conn.Client()
			return c.Do(t.Context(), c.B().Ping().Build()).Error() == nil
		})
	}
	works()
	password.Store("second")
	admin("ACL", "SETUSER", "svc", "resetpass", ">second")
	works()
	password.Store("")
	works()
}

// TestPasswordThatChangesBehindSentinels: connections to the primary log in with the password of their time, also after
// a fail-over, and those to the Sentinels with their own one of their time.
func TestPasswordThatChangesBehindSentinels(t *testing.T) {
	t.Parallel()
	sentinels := redistest.StartSentinel(t, redistest.Options{})
	asAdmin := func(command ...string) {
		t.Helper()
		for _, n := range sentinels.Nodes() {
			require.NoError(t, n.Do(t, command...).Error())
		}
	}
	asAdmin("ACL", "SETUSER", "svc", "on", ">first", "~*", "&*", "+@all")
	for _, n := range sentinels.Sentinels() {
		require.NoError(t, n.Do(t, "ACL", "SETUSER", "watcher", "on", ">own", "&*", "+@all").Error())
	}
	var password, own atomic.Value // string
	password.Store("first")
	own.Store("own")
	conn := storetest.Connect(t, redis.Options{
		URL: strings.Join(sentinels.Addrs(), ","), Username: "svc",
		Sentinel: redis.Sentinel{
			Master: redistest.MasterName, Username: "watcher",
			ReadPassword: func() (string, error) { return own.Load().(string), nil },
		},
		ReadPassword: func() (string, error) { return password.Load().(string), nil },
	})
	requireWorks(t, conn)
	for _, n := range sentinels.Sentinels() {
		users, err := n.Do(t, "CLIENT", "LIST").ToString()
		require.NoError(t, err)
		require.NotContains(t, users, "user=svc")
	}
	password.Store("second")
	asAdmin("ACL", "SETUSER", "svc", "resetpass", ">second")
	asAdmin("CLIENT", "KILL", "USER", "svc")
	requireWorks(t, conn)
	own.Store("next")
	for _, n := range sentinels.Sentinels() {
		require.NoError(t, n.Do(t, "ACL", "SETUSER", "watcher", "resetpass", ">next").Error())
		require.NoError(t, n.Do(t, "CLIENT", "KILL", "USER", "watcher").Error())
	}
	sentinels.Failover(t) // which the connection learns from the Sentinels
	requireWorks(t, conn)
}
