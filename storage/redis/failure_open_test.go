package redis

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// logged is a log that a test can wait on.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// What waiting can't mend ends Open at once, with the reason. The context would last much longer than the test.
func TestFailureOpenRefused(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t, redistest.Options{})
	locked := redistest.Start(t, redistest.Options{Username: "someone", Password: "secret"})
	encrypted := redistest.Start(t, redistest.Options{TLS: true})
	require.NoError(t, locked.Do(t, "ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-info").Error())
	for name, c := range map[string]struct {
		options Options
		says    string
	}{
		"no password":      {Options{URL: locked.Addr()}, "NOAUTH"},
		"a wrong password": {Options{URL: locked.Addr(), Username: "someone", Password: "secreT"}, "WRONGPASS"},
		"an unknown user":  {Options{URL: "redis://nobody:secret@" + locked.Addr()}, "WRONGPASS"},
		"no right to INFO": {Options{URL: locked.Addr(), Username: "blind", Password: "secret"}, "NOPERM"},
		"an unknown CA":    {Options{URL: encrypted.URL()}, "certificate"},
		"another CA":       {Options{URL: encrypted.URL(), TLS: &tls.Config{RootCAs: x509.NewCertPool()}}, "certificate"},
		"two, no cluster":  {Options{URL: plain.Addr() + "," + plain.Addr()}, "cluster support disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logged
			c.options.Logger = log.logger()
			_, err := Open(t.Context(), c.options)
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "secret")
			require.Empty(t, log.text.String(), "it was not tried again")
		})
	}
}

// Redis that is down is waited for until the context ends. Then the error says what was tried.
func TestFailureOpenInVain(t *testing.T) {
	t.Parallel()
	down := redistest.Start(t, redistest.Options{})
	paused := redistest.Start(t, redistest.Options{})
	encrypted := redistest.Start(t, redistest.Options{TLS: true})
	down.Kill(t)
	paused.Pause(t)
	for name, c := range map[string]struct{ url, says string }{
		"down":           {down.URL(), "connection refused"},
		"paused":         {paused.URL(), "deadline exceeded"},
		"TLS is missing": {encrypted.Addr(), encrypted.Addr()},
		"no such host":   {"tidemark.invalid:6379", "tidemark.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logged
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := Open(ctx, Options{URL: c.url, Timeout: 200 * time.Millisecond, Logger: log.logger()})
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "connect to redis at")
			require.True(t, log.has("redis isn't ready, trying again"))
		})
	}
}

// Redis that comes up in time is found.
func TestFailureOpenWaits(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, durable)
	lore{messages: 1}.make(t, openAt(t, Options{URL: n.URL()}), n.Client(), "x")
	n.Kill(t)
	var log logged
	opened := make(chan *Store)
	failed := make(chan error)
	go func() {
		s, err := Open(t.Context(), Options{URL: n.URL(), Logger: log.logger()})
		if err != nil {
			failed <- err
			return
		}
		opened <- s
	}()
	waitFor(t, "the first try to fail", func() bool { return log.has("trying again") })
	n.Restart(t)
	select {
	case s := <-opened:
		defer s.Close()
		requireEach(t.Context(), t, calls(t, s, "x"), requireFine)
	case err := <-failed:
		require.NoError(t, err)
	}
}

// All ways to reach Redis work for all operations.
func TestFailureNoneHoweverItIsReached(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	onSocket := redistest.Start(t, redistest.Options{Args: []string{"--unixsocket", socket}})
	locked := redistest.Start(t, redistest.Options{Username: "someone", Password: "se:cr@t/ 1"})
	old := redistest.Start(t, redistest.Options{Password: "secret"})
	encrypted := redistest.Start(t, redistest.Options{TLS: true, Password: "secret"})
	sentinels := redistest.StartSentinel(t, redistest.Options{Password: "secret", TLS: true})
	cluster := redistest.StartCluster(t, redistest.Options{TLS: true, Username: "someone", Password: "secret", Primaries: 2, Replicas: -1})
	_, err := Open(t.Context(), Options{
		URL: strings.Join(sentinels.Addrs(), ","), TLS: sentinels.Nodes()[0].TLSConfig(), SentinelMaster: "nobody", Logger: slog.New(slog.DiscardHandler),
	})
	require.ErrorContains(t, err, "No such master")
	for name, c := range map[string]struct {
		options Options
		node    *redistest.Node
	}{
		"socket":           {Options{URL: "unix://" + socket}, onSocket},
		"user in URL":      {Options{URL: locked.URL()}, locked},
		"user in options":  {Options{URL: locked.Addr(), Username: "someone", Password: "se:cr@t/ 1"}, locked},
		"only a password":  {Options{URL: "redis://:secret@" + old.Addr()}, old},
		"password apart":   {Options{URL: old.Addr(), Password: "secret"}, old},
		"TLS":              {Options{URL: encrypted.URL(), TLS: encrypted.TLSConfig()}, encrypted},
		"TLS by options":   {Options{URL: encrypted.Addr(), Password: "secret", TLS: encrypted.TLSConfig()}, encrypted},
		"sentinels, TLS":   {Options{URL: strings.Join(sentinels.Addrs(), ","), SentinelMaster: redistest.MasterName, Password: "secret", TLS: sentinels.Nodes()[0].TLSConfig()}, sentinels.Nodes()[0]},
		"sentinels by URL": {Options{URL: "rediss://:secret@" + strings.Join(sentinels.Addrs(), ",") + "?master_set=" + redistest.MasterName, TLS: sentinels.Nodes()[0].TLSConfig()}, sentinels.Nodes()[0]},
		"cluster, TLS":     {Options{URL: cluster.Addrs()[1], Username: "someone", Password: "secret", TLS: cluster.Nodes()[0].TLSConfig()}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.options.KeyPrefix = redistest.Prefix(t)
			s := openAt(t, c.options)
			lore{messages: 1}.make(t, s, nil, "x")
			requireEach(t.Context(), t, calls(t, s, "x"), requireFine)
			if c.node != nil {
				require.Equal(t, "5", valueAt(t, c.node, s.channel("x").clock()))
			}
		})
	}
}

func valueAt(t *testing.T, n *redistest.Node, key string) string {
	t.Helper()
	value, err := n.Do(t, "GET", key).ToString()
	require.NoError(t, err)
	return value
}
