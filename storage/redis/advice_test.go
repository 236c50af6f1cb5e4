package redis_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestAdviceInOperation: Redis refuses a service that worked. Errors of operations name the cause and what to change.
func TestAdviceInOperation(t *testing.T) {
	t.Parallel()
	user := func(rules ...string) []string {
		return append([]string{"ACL", "SETUSER", "svc", "reset", "on", ">secret", "~mm1:*", "&mm1:*", "+@all"}, rules...)
	}
	for name, c := range map[string]struct {
		change []string // on the server
		prefix string   // of the service
		says   string
	}{
		"keys":      {user("resetkeys", "~other:*"), "mm1:", `user "svc" lacks a right: ACL SETUSER svc ~mm1:*`},
		"channels":  {user("resetchannels"), "mm1:", `user "svc" lacks a right: ACL SETUSER svc &mm1:*`},
		"a command": {user("-evalsha"), "mm1:", `user "svc" lacks a right: ACL SETUSER svc +evalsha`},
		"a command of a script": {user("-spublish"), "mm1:",
			`user "svc" may not run a command of a script: tidemark doctor names all rights that it lacks`},
		"a replica":    {[]string{"REPLICAOF", "127.0.0.1", "1"}, "mm1:", "a replica, which refuses writes: set --redis"},
		"few replicas": {[]string{"CONFIG", "SET", "min-replicas-to-write", "1"}, "mm1:", "min-replicas-to-write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := redistest.Start(t, redistest.Options{})
			require.NoError(t, n.Do(t, user()...).Error())
			conn := storetest.Connect(t, redis.Options{URL: "redis://svc:secret@" + n.Addr(), KeyPrefix: c.prefix,
				Timeout: time.Second})
			require.NoError(t, conn.Ready(t.Context()))
			require.NoError(t, n.Do(t, c.change...).Error())
			err := conn.Ready(t.Context())
			require.Contains(t, refusal.Advice(err), c.says)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// TestRefusals: the error for clients says whether trying again helps, and the log what to change.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const refused, retry = "trying again helps only after its operator has changed", "trying again is safe"
	set := []string{"SET", "mm1:key", "1"}
	for name, c := range map[string]struct {
		change []string // on the server
		call   []string
		detail string // for clients
		advice string
	}{
		"keys":     {[]string{"ACL", "SETUSER", "svc", "resetkeys"}, set, refused, "ACL SETUSER svc ~mm1:*"},
		"rights":   {[]string{"ACL", "SETUSER", "svc", "-set"}, set, refused, "ACL SETUSER svc +set"},
		"password": {[]string{"ACL", "SETUSER", "svc", "resetpass", ">other"}, set, refused, "check --redis-username"},
		"command":  {[]string{"PING"}, []string{"NOSUCH"}, refused, "Redis lacks a command, or has renamed it"},
		"command of a script": {[]string{"PING"}, []string{"EVAL", "return redis.call('nosuch')", "0"}, refused,
			"Redis lacks a command, or has renamed it"},
		"replica": {[]string{"REPLICAOF", "127.0.0.1", "1"}, set, retry, "set --redis to its primary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := redistest.Start(t, redistest.Options{})
			require.NoError(t, n.Do(t, "ACL", "SETUSER", "svc", "on", ">secret", "~mm1:*", "&mm1:*", "+@all").Error())
			conn := storetest.Connect(t, redis.Options{URL: "redis://svc:secret@" + n.Addr(), KeyPrefix: "mm1:",
				Timeout: time.Second})
			require.NoError(t, n.Do(t, c.change...).Error())
			require.NoError(t, n.Do(t, "CLIENT", "KILL", "USER", "svc").Error()) // a password counts for new connections
			err := conn.Retry(t.Context(), "call", func(ctx context.Context) error {
				return conn.Client().Do(ctx, conn.Client().B().Arbitrary(c.call...).Build()).Error()
			})
			var e *fault.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, fault.SlugUnavailable, e.Slug, err)
			require.Contains(t, e.Detail, c.detail)
			require.Positive(t, e.RetryAfter)
			require.Contains(t, refusal.Advice(err), c.advice)
		})
	}
}

// Redis can't write its snapshots, and refuses writes.
func TestAdviceForAFullDisk(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{Args: []string{"--save", "3600", "1000000"}})
	conn := storetest.Connect(t, redis.Options{URL: n.URL(), Timeout: time.Second})
	require.NoError(t, os.MkdirAll(filepath.Join(n.Dir(), "dump.rdb", "in the way"), 0o700))
	require.NoError(t, n.Do(t, "SET", "key", "value").Error())
	require.NoError(t, n.Do(t, "BGSAVE").Error())
	var err error
	storetest.WaitFor(t, "the save to fail", func() bool {
		err = conn.Ready(t.Context())
		return err != nil
	})
	require.ErrorContains(t, err, "MISCONF")
	require.Contains(t, refusal.Advice(err), "free disk space or repair its directory")
}

// Redis has no memory left.
func TestAdviceForFullMemory(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	conn := storetest.Connect(t, redis.Options{URL: n.URL(), Timeout: time.Second})
	storetest.FillUp(t, n)
	err := conn.Retry(t.Context(), "set", func(ctx context.Context) error {
		return conn.Client().Do(ctx, conn.Client().B().Set().Key("key").Value("5").Build()).Error()
	})
	require.ErrorContains(t, err, "OOM")
	require.Contains(t, refusal.Advice(err), "Redis has reached its maxmemory: raise it")
}

// While a service runs, another program takes the address of Redis, or Redis begins to speak TLS. The log says so,
// once.
func TestAdviceForAnotherProgram(t *testing.T) {
	t.Parallel()
	encrypted := redistest.Start(t, redistest.Options{TLS: true})
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for name, c := range map[string]struct{ address, says string }{
		"TLS":  {encrypted.Addr(), "speaks TLS: set --redis to rediss://"},
		"HTTP": {web.Listener.Addr().String(), "speaks HTTP, so it is no Redis: set --redis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := redistest.Start(t, redistest.Options{})
			address := redistest.Forward(t, n)
			var log logged
			conn := storetest.Connect(t, redis.Options{URL: address.Addr(), Timeout: time.Second, Logger: log.logger()})
			require.NoError(t, conn.Ready(t.Context()))
			address.SetTarget(c.address)
			address.Cut()
			storetest.WaitFor(t, "the log to say so", func() bool {
				require.Error(t, conn.Ready(t.Context()))
				return log.has("redis can't be used")
			})
			require.True(t, log.has(c.says))
		})
	}
}
