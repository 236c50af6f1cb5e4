package redistest_test

import (
	"context"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestStandaloneIsShared(t *testing.T) {
	t.Parallel()
	a, b := redistest.Standalone(t), redistest.Standalone(t)
	require.Same(t, a, b)

	key := redistest.Prefix(t) + "k"
	require.NotEqual(t, key, redistest.Prefix(t)+"k")
	require.NoError(t, a.Do(t, "SET", key, "v").Error())
	got, err := dial(t, b.URL()).Do(t.Context(), b.Client().B().Get().Key(key).Build()).ToString()
	require.NoError(t, err)
	require.Equal(t, "v", got)
}

func TestValkeyIsASharedServer(t *testing.T) {
	t.Parallel()
	n, ok := redistest.Valkey(t)
	if !ok {
		t.Log("no valkey-server on PATH")
		return
	}
	require.NoError(t, n.Do(t, "PING").Error())
}

func TestKilledServerComesBackWithItsFiles(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	require.NoError(t, n.Do(t, "SET", "k", "v").Error())

	pid := n.PID()
	n.Kill(t)
	require.Error(t, n.Do(t, "PING").Error())
	n.Kill(t) // does no harm
	n.Restart(t)

	require.NotEqual(t, pid, n.PID())
	got, err := n.Do(t, "GET", "k").ToString()
	require.NoError(t, err)
	require.Equal(t, "v", got)
	n.Stop(t)
	require.Error(t, n.Do(t, "PING").Error())
}

func TestPausedServerAnswersLater(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	n.Pause(t)
	answer := make(chan error, 1)
	go func() {
		answer <- n.Client().Do(context.WithoutCancel(t.Context()), n.Client().B().Ping().Build()).Error()
	}()
	n.Resume(t)
	require.NoError(t, <-answer)

	n.Pause(t)
	n.Kill(t) // a paused server can be killed
	n.Restart(t)
	require.NoError(t, n.Do(t, "PING").Error())
	n.Pause(t) // and left to the end of the test
}

func TestOptionsReachTheServer(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{Args: []string{"--maxmemory", "8mb"}})
	got, err := n.Do(t, "CONFIG", "GET", "maxmemory").AsStrMap()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"maxmemory": "8388608"}, got)
}

func TestSecretsAndTLS(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]redistest.Options{
		"password":     {Password: "se/cr:et"},
		"user":         {Username: "alice", Password: "secret"},
		"TLS":          {TLS: true},
		"TLS and user": {TLS: true, Username: "alice", Password: "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := redistest.Start(t, o)
			require.Equal(t, o.TLS, primary.CAFile() != "")
			replica := redistest.StartReplica(t, primary)
			require.NoError(t, primary.Do(t, "SET", "k", "v").Error())
			seen, err := primary.Do(t, "WAIT", "1", "0").ToInt64()
			require.NoError(t, err)
			require.EqualValues(t, 1, seen)
			got, err := replica.Do(t, "GET", "k").ToString()
			require.NoError(t, err)
			require.Equal(t, "v", got)

			bare, err := rueidis.NewClient(
				rueidis.ClientOption{InitAddress: []string{primary.Addr()}, DisableCache: true})
			if err == nil {
				err = bare.Do(t.Context(), bare.B().Ping().Build()).Error()
				bare.Close()
			}
			require.Error(t, err, "a client without secret or TLS must be refused")
		})
	}
}

// dial makes a client from a server's URL, as a program under test would.
func dial(t *testing.T, url string) rueidis.Client {
	t.Helper()
	o, err := rueidis.ParseURL(url)
	require.NoError(t, err)
	o.DisableCache = true
	client, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}
