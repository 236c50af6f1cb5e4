package leases_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	"github.com/tidemark-dev/tidemark/test/process"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// workerEnv makes a process of this test binary hold a lease: "<URL of Redis> <key prefix>".
const workerEnv = "TIDEMARK_TEST_LEASE_WORKER"

const (
	workerTTL = 2 * time.Second
	workerJob = "job"
)

// fencedWrite writes to a resource that refuses the writes of earlier holders. It returns 1 if it has written.
const fencedWrite = `
local fence, seen = tonumber(ARGV[1]), tonumber(redis.call('GET', KEYS[1]) or 0)
if fence < seen then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1`

func write(ctx context.Context, client rueidis.Client, prefix string, fence uint64) (accepted bool, err error) {
	key := prefix + "resource"
	return client.Do(ctx, client.B().Eval().Script(fencedWrite).Numkeys(1).Key(key).Arg(
		fmt.Sprint(fence)).Build()).AsBool()
}

// TestAPausedHolder stops the process of a holder, without its knowledge, for longer than its lease lasts. Another
// holder gets the lease with a higher fence. When the first one continues its context is canceled, and the resource
// refuses its writes.
func TestAPausedHolder(t *testing.T) {
	t.Parallel()
	for kind, url := range map[string]string{
		"standalone": redistest.Standalone(t).URL(), "cluster": strings.Join(redistest.Cluster(t).Addrs(), ","),
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := open(t, url)
			w := startWorker(t, url, h.prefix)
			first := w.await(t, "holds")
			require.NoError(t, w.Signal(syscall.SIGSTOP))

			m, err := lease.NewManager(h.store, lease.Options{TTL: time.Minute})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), storetest.Patience)
			defer cancel()
			require.NoError(t, m.Hold(ctx, workerJob, func(ctx context.Context, second uint64) error {
				require.Greater(t, second, first)
				accepted, err := write(ctx, h.client, h.prefix, second)
				require.NoError(t, err)
				require.True(t, accepted)
				require.NoError(t, w.Signal(syscall.SIGCONT))
				require.Equal(t, first, w.await(t, "lost"))
				require.Equal(t, first, w.await(t, "refused"))
				return ctx.Err()
			}))
			require.Greater(t, w.await(t, "holds"), first, "the lease is free for the first one again")
		})
	}
}

// worker is a process that repeatedly holds the lease, and writes to the resource meanwhile.
type worker struct {
	process.Process
	read int // bytes of what it has printed
}

func startWorker(t *testing.T, url, prefix string) *worker {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	w := &worker{Process: process.Process{
		Program: self, Env: append(os.Environ(), workerEnv+"="+url+" "+prefix), Dir: t.TempDir(), LogName: "worker.log",
	}}
	require.NoError(t, w.Start(t.Context()))
	t.Cleanup(func() {
		if err := w.End(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	return w
}

// await waits until the worker prints the next event after the last awaited one, and returns its fence.
func (w *worker) await(t *testing.T, event string) (fence uint64) {
	t.Helper()
	storetest.WaitFor(t, fmt.Sprintf("%q of the worker", event), func() bool {
		require.True(t, w.Alive(), "the worker has ended: %s", process.LastLines(w.Log(), 20))
		printed, err := os.ReadFile(filepath.Join(w.Dir, w.LogName))
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(printed[w.read:]), event+" ")
		number, rest, whole := strings.Cut(rest, "\n")
		if !found || !whole {
			return false
		}
		w.read = len(printed) - len(rest)
		_, err = fmt.Sscan(number, &fence)
		require.NoError(t, err)
		return true
	})
	return fence
}

// work is the program of a worker.
func work() {
	ctx := context.Background()
	url, prefix, _ := strings.Cut(os.Getenv(workerEnv), " ")
	conn, err := redis.Connect(ctx, redis.Options{URL: url, KeyPrefix: prefix, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	m, err := lease.NewManager(leases.New(conn), lease.Options{TTL: workerTTL})
	if err != nil {
		panic(err)
	}
	for {
		err := m.Hold(ctx, workerJob, func(ctx context.Context, fence uint64) error {
			fmt.Println("holds", fence)
			return writeWhileHeld(ctx, conn.Client(), prefix, fence)
		})
		// An answer may take longer than the TTL on a busy machine.
		if !errors.Is(err, lease.ErrLost) && !errors.Is(err, fault.ErrUnavailable) {
			panic(err)
		}
	}
}

func writeWhileHeld(ctx context.Context, client rueidis.Client, prefix string, fence uint64) error {
	for ctx.Err() == nil {
		// If the pause begins here, the write is too late and refused.
		if _, err := write(context.WithoutCancel(ctx), client, prefix, fence); err != nil {
			return err
		}
	}
	fmt.Println("lost", fence)
	accepted, err := write(context.WithoutCancel(ctx), client, prefix, fence)
	if err == nil && !accepted {
		fmt.Println("refused", fence)
	}
	return errors.Join(err, context.Cause(ctx))
}
