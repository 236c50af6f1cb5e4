package main

import (
	"bufio"
	"context"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// The source returns the values of an interval, and the changes.
func TestSource(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "capitals.csv")
	write := func(text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	write("Peru,Lima\nJapan,Tokyo\n")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		key := capitals.ShardingKey("Peru")
		served, ended := make(chan shard.Reader[string, string, string], 1), make(chan error, 1)
		go func() {
			ended <- file(name).Run(ctx, shard.Interval{First: key, Last: key},
				func(r shard.Reader[string, string, string]) { served <- r })
		}()
		get := func() []shard.Entry[string, string] {
			found, err := (<-served)(ctx, []string{"Peru", "Japan"})
			require.NoError(t, err)
			return found
		}
		require.Equal(t, []shard.Entry[string, string]{{ID: "Peru", Value: "Lima"}}, get())
		write("Peru,Cusco\n")
		require.NoError(t, os.Chtimes(name, time.Time{}, time.Now()))
		require.Equal(t, []shard.Entry[string, string]{{ID: "Peru", Value: "Cusco"}}, get())
		stop()
		require.NoError(t, <-ended)
	})
}

// The nodes of nodes.sh answer for all capitals while one is killed and a data centre hangs.
func TestNodes(t *testing.T) {
	t.Parallel()
	redisURL, prefix := redistest.Standalone(t).URL(), redistest.Prefix(t)
	script := exec.Command("./nodes.sh")
	script.Env = append(os.Environ(), "REDIS_URL="+redisURL, "KEY_PREFIX="+prefix)
	log, err := script.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, script.Start())
	lines := bufio.NewScanner(log)
	for answering := 0; answering < 12 && lines.Scan(); {
		if strings.Contains(lines.Text(), "the node answers for its shard") {
			answering++
		}
	}
	go func() { // so that the node never blocks on its log
		for lines.Scan() {
		}
	}()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(script.Process.Pid)).Output()
	require.NoError(t, err)
	groups := strings.Fields(string(out))
	require.Len(t, groups, 12)
	signal := func(s syscall.Signal, groups ...string) {
		for _, g := range groups {
			id, err := strconv.Atoi(g)
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(-id, s))
		}
	}
	signal(syscall.SIGKILL, groups[0])
	signal(syscall.SIGSTOP, groups[4:8]...)
	defer func() {
		signal(syscall.SIGCONT, groups[4:8]...)
		require.NoError(t, script.Process.Signal(syscall.SIGTERM))
		require.NoError(t, script.Wait())
	}()

	want, err := file("capitals.csv").load(shard.All)
	require.NoError(t, err)
	conn, err := redis.Connect(t.Context(), redis.Options{URL: redisURL, KeyPrefix: prefix,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, read(t.Context(), shards.New(conn), slog.New(slog.DiscardHandler), func(c *client) error {
		for range 20 {
			found, err := c.Get(t.Context(), slices.Collect(maps.Keys(want)))
			require.NoError(t, err)
			require.Equal(t, want, found)
		}
		return nil
	}))
}
