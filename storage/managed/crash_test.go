package managed

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A service crashes and leaves its child running, as happens without a signal at the parent's death, and on Linux too
// if the signal was missed.
func TestAbandonedChildIsShutDownByTheNextService(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"short path": t.TempDir(), "long path": longDir(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := startService(t, dir, serviceAbandon+"=1")
			pid := childPID(t, dir)
			place, err := placeSocket(dir)
			require.NoError(t, err)
			client := connect(t, "unix://"+place.path)
			set(t, client, "key", "kept")
			kill(t, service)
			requireKept(t, client) // the child has outlived its service

			r := startReady(t, Options{DataDir: dir})

			requireKept(t, r.client(t))
			require.NotEqual(t, pid, childPID(t, dir))
			require.Contains(t, r.log.String(), leftBehind)
			require.NotContains(t, r.log.String(), "killing it")
		})
	}
}

func TestAbandonedChildThatHangsIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	service := startService(t, dir, serviceAbandon+"=1")
	pid := childPID(t, dir)
	kill(t, service)
	// In this order: the kernel wakes a stopped process when its parent dies.
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))

	r := startReady(t, Options{DataDir: dir, StopTimeout: 200 * time.Millisecond})

	require.NotEqual(t, pid, childPID(t, dir))
	require.Contains(t, r.log.String(), "killing it")
}
