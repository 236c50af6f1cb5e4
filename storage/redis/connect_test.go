package redis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// logged is a log that a test can wait on.
type logged struct {
	then func() // called after each line; nil: nothing is
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.then != nil {
		defer l.then()
	}
	return l.text.Write(b)
}

func (l *logged) has(text string) bool { return l.count(text) > 0 }

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// An error that waiting can't resolve ends Connect at once, with the reason. The context would last much longer than
// the test.
func TestConnectRefused(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t, redistest.Options{})
	locked := redistest.Start(t, redistest.Options{Username: "someone", Password: "secret"})
	encrypted := redistest.Start(t, redistest.Options{TLS: true})
	require.NoError(t, locked.Do(t, "ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-info").Error())
	sentinels := redistest.StartSentinel(t, redistest.Options{})
	cluster := redistest.Cluster(t)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for name, c := range map[string]struct {
		options redis.Options
		says    string
		advice  string
	}{
		"no password": {redis.Options{URL: locked.Addr()}, "NOAUTH", "set --redis-username and --redis-password"},
		"a wrong password": {redis.Options{URL: locked.Addr(), Username: "someone", Password: "secreT"}, "WRONGPASS",
			`no enabled user "someone" with this password: check --redis-username and --redis-password`},
		"an unknown user": {redis.Options{URL: "redis://nobody:secret@" + locked.Addr(), Option: "tickets-redis"}, "WRONGPASS",
			"check the user and the password in the URL of --tickets-redis, or --tickets-redis-password-file"},
		"no right to INFO": {redis.Options{URL: locked.Addr(), Username: "blind", Password: "secret"}, "NOPERM",
			"ACL SETUSER blind +info"},
		"an unknown CA": {redis.Options{URL: encrypted.URL()}, "certificate", "set --redis-ca-file"},
		"another CA": {redis.Options{URL: encrypted.URL(), TLS: &tls.Config{RootCAs: x509.NewCertPool()}},
			"certificate", "set --redis-ca-file"},
		"another name": {redis.Options{URL: encrypted.URL(), TLS: otherName(encrypted)}, "certificate", "a name that"},
		"two, no cluster": {redis.Options{URL: plain.Addr() + "," + plain.Addr()}, "cluster support disabled",
			"or --redis-sentinel-master"},
		"TLS is missing": {redis.Options{URL: encrypted.Addr()}, "not the protocol", "speaks TLS: set --redis to rediss://"},
		"no TLS there": {redis.Options{URL: "rediss://" + plain.Addr(), Timeout: time.Second}, "not the protocol",
			"speaks Redis without TLS: set --redis to redis://"},
		"HTTP":       {redis.Options{URL: web.Listener.Addr().String()}, "not the protocol", "speaks HTTP, so it is no Redis"},
		"a Sentinel": {redis.Options{URL: sentinels.Addrs()[0]}, "it is a Sentinel", "set --redis-sentinel-master"},
		"no Sentinel": {redis.Options{URL: plain.Addr(), Sentinel: redis.Sentinel{Master: "mymaster"}},
			"unknown command", "and this is no Sentinel"},
		"no such database": {redis.Options{URL: plain.URL() + "/77"}, "out of range", "change the number in the URL"},
		"plain keys in a Cluster": {redis.Options{URL: cluster.Nodes()[0].URL(), PlainKeys: true, Option: "cache-redis"},
			"it is a Cluster", "set --cache-redis to a standalone Redis, or leave out --records-keys plain"},
		"a database of a Cluster": {redis.Options{URL: cluster.Nodes()[0].URL() + "/1"}, "SELECT",
			"a Cluster has only database 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logged
			c.options.Logger = log.logger()
			_, err := redis.Connect(t.Context(), c.options)
			require.ErrorContains(t, err, c.says)
			require.Contains(t, refusal.Advice(err), c.advice)
			require.ErrorContains(t, err, c.advice)
			require.NotContains(t, err.Error(), "secret")
			// On a busy machine an attempt may end before the server has answered it.
			require.False(t, log.has(c.says), "it was not tried again")
		})
	}
}

// otherName returns the TLS options of a server with a name that its certificate doesn't have.
func otherName(n *redistest.Node) *tls.Config {
	config := n.TLSConfig()
	config.ServerName = "redis.example.com"
	return config
}

// If Redis is down, Connect retries until the context ends. Then the error describes the last attempt.
func TestConnectInVain(t *testing.T) {
	t.Parallel()
	down := redistest.Start(t, redistest.Options{})
	paused := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, redistest.Start(t, redistest.Options{}))
	down.Kill(t)
	paused.Pause(t)
	for name, c := range map[string]struct {
		url, says string
		timeout   time.Duration
	}{
		"down":         {down.URL(), "connection refused", 0},
		"paused":       {paused.URL(), "deadline exceeded", 200 * time.Millisecond},
		"a replica":    {replica.Addr(), "it is a replica of 127.0.0.1:", 0},
		"no such host": {"tidemark.invalid:6379", "tidemark.invalid", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			log := logged{then: cancel} // the first attempt has failed
			_, err := redis.Connect(ctx, redis.Options{URL: c.url, Timeout: c.timeout, Logger: log.logger()})
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "connect to redis at")
			require.True(t, log.has("redis isn't ready, trying again"))
		})
	}
}

// If Redis starts in time, Connect succeeds.
func TestConnectWaits(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	n.Kill(t)
	var log logged
	opened := make(chan *redis.Conn)
	failed := make(chan error)
	go func() {
		s, err := redis.Connect(t.Context(), redis.Options{URL: n.URL(), Logger: log.logger()})
		if err != nil {
			failed <- err
			return
		}
		opened <- s
	}()
	storetest.WaitFor(t, "the first try to fail", func() bool { return log.has("trying again") })
	n.Restart(t)
	select {
	case s := <-opened:
		defer s.Close()
		requireWorks(t, s)
	case err := <-failed:
		require.NoError(t, err)
	}
}

// All ways to reach Redis work for all operations.
func TestConnectByEveryWay(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	onSocket := redistest.Start(t, redistest.Options{Args: []string{"--unixsocket", socket}})
	locked := redistest.Start(t, redistest.Options{Username: "someone", Password: "se:cr@t/ 1"})
	old := redistest.Start(t, redistest.Options{Password: "secret"})
	encrypted := redistest.Start(t, redistest.Options{TLS: true, Password: "secret"})
	sentinels := redistest.StartSentinel(t, redistest.Options{Password: "secret", TLS: true})
	cluster := redistest.StartCluster(t, redistest.Options{TLS: true, Username: "someone", Password: "secret",
		Primaries: 2, Replicas: -1})
	_, err := redis.Connect(t.Context(), redis.Options{
		URL: strings.Join(sentinels.Addrs(), ","), TLS: sentinels.Nodes()[0].TLSConfig(),
		Sentinel: redis.Sentinel{Master: "nobody"}, Logger: slog.New(slog.DiscardHandler),
	})
	require.ErrorContains(t, err, "No such master")
	for name, c := range map[string]struct {
		options redis.Options
		node    *redistest.Node
	}{
		"socket":          {redis.Options{URL: "unix://" + socket}, onSocket},
		"a database":      {redis.Options{URL: onSocket.URL() + "/3"}, nil},
		"a list":          {redis.Options{URL: strings.Join(redistest.Cluster(t).Addrs(), ",")}, nil},
		"user in URL":     {redis.Options{URL: locked.URL()}, locked},
		"user in options": {redis.Options{URL: locked.Addr(), Username: "someone", Password: "se:cr@t/ 1"}, locked},
		"only a password": {redis.Options{URL: "redis://:secret@" + old.Addr()}, old},
		"password apart":  {redis.Options{URL: old.Addr(), Password: "secret"}, old},
		"TLS":             {redis.Options{URL: encrypted.URL(), TLS: encrypted.TLSConfig()}, encrypted},
		"TLS by options": {redis.Options{URL: encrypted.Addr(), Password: "secret", TLS: encrypted.TLSConfig()},
			encrypted},
		"sentinels, TLS": {redis.Options{URL: strings.Join(sentinels.Addrs(), ","),
			Sentinel: redis.Sentinel{Master: redistest.MasterName}, Password: "secret",
			TLS: sentinels.Nodes()[0].TLSConfig()}, sentinels.Nodes()[0]},
		"sentinels by URL": {redis.Options{URL: "rediss://:secret@" + strings.Join(sentinels.Addrs(), ",") +
			"?master_set=" + redistest.MasterName, TLS: sentinels.Nodes()[0].TLSConfig()}, sentinels.Nodes()[0]},
		"cluster, TLS": {redis.Options{URL: cluster.Addrs()[1], Username: "someone", Password: "secret",
			TLS: cluster.Nodes()[0].TLSConfig()}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.options.KeyPrefix = redistest.Prefix(t)
			s := storetest.Connect(t, c.options)
			requireWorks(t, s)
			if c.node != nil {
				found, err := c.node.Do(t, "GET", s.Prefix()+"key").ToString()
				require.NoError(t, err)
				require.Equal(t, "5", found)
			}
		})
	}
}

// requireWorks uses all connections: those for commands, for subscriptions, and for large replies.
func requireWorks(t *testing.T, c *redis.Conn) {
	t.Helper()
	require.NoError(t, c.Ready(t.Context()))
	require.NoError(t, storagetest.ErrorOf(c.Inspect(t.Context())))
	require.NoError(t, c.Retry(t.Context(), "set", func(ctx context.Context) error {
		return c.Bulk().Do(ctx, c.Bulk().B().Set().Key(c.Prefix()+"key").Value("5").Build()).Error()
	}))
}
