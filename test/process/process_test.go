package process_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/process"
)

func sleeper(t *testing.T) *process.Process {
	t.Helper()
	p := &process.Process{Program: "sleep", Args: []string{"1000"}, Dir: t.TempDir(), LogName: "log"}
	require.NoError(t, p.Start(t.Context()))
	return p
}

func TestProcessStartsAgainAfterItsEnd(t *testing.T) {
	t.Parallel()
	p := sleeper(t)
	require.Error(t, p.Start(t.Context()), "it is running")
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	require.True(t, p.Alive())
	require.NoError(t, p.End(syscall.SIGTERM), "a stopped process is woken")
	require.False(t, p.Alive())
	require.ErrorIs(t, p.Signal(syscall.SIGTERM), process.ErrEnded)
	require.NoError(t, p.End(syscall.SIGTERM))

	p.Program, p.Args = "sh", []string{"-c", "echo hello; echo there >&2"}
	require.NoError(t, p.Start(t.Context()))
	<-p.Exited()
	require.Zero(t, p.ExitCode())
	require.Equal(t, "hello\nthere\n", p.Log())
	require.Equal(t, "there", process.LastLines(p.Log(), 1))
}

// orphanEnv makes TestNoProcessOutlivesItsParent the process that is killed.
const orphanEnv = "TIDEMARK_PROCESS_ORPHAN"

func TestNoProcessOutlivesItsParent(t *testing.T) {
	t.Parallel()
	if os.Getenv(orphanEnv) != "" {
		printAndHang(t)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), orphanEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var running, stopped int
	var dir string
	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "children %d %d %s", &running, &stopped, &dir) // other lines don't match
	}
	require.DirExists(t, dir)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	for _, pid := range []int{running, stopped} {
		require.Eventually(t, func() bool { return ended(pid) }, time.Minute, 10*time.Millisecond)
	}
	// The kernel may have ended the children before the guard was told: a group with a stopped process receives SIGHUP.
	require.Eventually(t, func() bool { return !exists(dir) }, time.Minute, 10*time.Millisecond)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !os.IsNotExist(err)
}

// printAndHang starts children, one of them stopped, prints their process IDs and waits to be killed.
func printAndHang(t *testing.T) {
	t.Helper()
	running, stopped := sleeper(t), sleeper(t)
	require.NoError(t, stopped.Signal(syscall.SIGSTOP))
	dir, err := process.TempDir(t.Context(), "orphan-")
	require.NoError(t, err)
	fmt.Printf("\nchildren %d %d %s\n", running.PID(), stopped.PID(), dir)
	select {}
}

// ended reports whether the process does not exist, or is a zombie.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestStopRemovesTempDir(t *testing.T) { //nolint:paralleltest // it stops the children of all tests
	dir, err := process.TempDir(t.Context(), "stop-")
	require.NoError(t, err)
	p := sleeper(t)
	require.NoError(t, process.Stop())
	<-p.Exited()
	require.NoDirExists(t, dir)
}
