package redistest_test

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

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// orphanEnv makes TestServersOutlivedByNobody play the test binary that is killed.
const orphanEnv = "TIDEMARK_REDISTEST_ORPHAN"

func TestNoServerOutlivesTheTestBinary(t *testing.T) {
	t.Parallel()
	if os.Getenv(orphanEnv) != "" {
		printAndHang(t)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), orphanEnv+"=1", "TIDEMARK_TEST_REDIS=process")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var pids []int
	var dirs []string
	for lines := bufio.NewScanner(out); len(pids) < 3 && lines.Scan(); {
		var pid int
		var dir string
		if _, err := fmt.Sscanf(lines.Text(), "server %d %s", &pid, &dir); err == nil {
			pids, dirs = append(pids, pid), append(dirs, dir)
		}
	}
	require.Len(t, pids, 3)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())

	for i, pid := range pids {
		require.Eventually(t, func() bool { return gone(pid) }, time.Minute, 10*time.Millisecond)
		require.NoDirExists(t, dirs[i])
	}
}

// printAndHang starts servers, one of them paused, prints their process IDs and waits to be killed.
func printAndHang(t *testing.T) {
	t.Helper()
	paused := redistest.Start(t, redistest.Options{})
	paused.Pause(t)
	for _, n := range []*redistest.Node{redistest.Standalone(t), redistest.Start(t, redistest.Options{}), paused} {
		fmt.Printf("\nserver %d %s\n", n.PID(), n.Dir())
	}
	select {}
}

// gone says whether no such process is there, or only what its parent has yet to collect.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
