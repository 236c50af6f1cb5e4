package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// restartable is a service that is started several times on one address, with the same data.
type restartable struct {
	address, dir string
	command      *exec.Cmd
}

// start starts the service, and returns when it is ready.
func (r *restartable) start(t *testing.T) {
	t.Helper()
	r.command = exec.Command(setting(t, "TIDEMARK_TEST_BINARY"), "serve", "--listen", r.address, "--grpc-listen", "off",
		"--admin-listen", "off", "--data-dir", r.dir)
	log, err := r.command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, r.command.Start())
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(log)
		for found := false; lines.Scan(); {
			if !found && strings.Contains(lines.Text(), `msg="tidemark is ready"`) {
				found = true
				close(ready)
			}
		}
	}()
	select {
	case <-ready:
	case <-time.After(patience):
		require.FailNow(t, "the service isn't ready")
	}
}

func (r *restartable) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, r.command.Process.Signal(syscall.SIGTERM))
	require.NoError(t, r.command.Wait())
}

// killRedis ends the service's own Redis, which runs in a directory of its data, as a crash does.
func (r *restartable) killRedis(t *testing.T) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cwd")
	require.NoError(t, err)
	killed := 0
	for _, cwd := range processes {
		name, err := os.ReadFile(filepath.Join(filepath.Dir(cwd), "comm"))
		if at, failed := os.Readlink(cwd); err != nil || failed != nil || !strings.HasPrefix(at, r.dir) ||
			!strings.HasPrefix(string(name), "redis-server") {
			continue
		}
		pid := 0
		_, err = fmt.Sscanf(cwd, "/proc/%d/cwd", &pid)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		killed++
	}
	require.Equal(t, 1, killed)
}

// call repeats a call until it succeeds.
func (r *restartable) call(t *testing.T, method, path, body string) {
	t.Helper()
	require.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.address+"/v1"+path,
			strings.NewReader(body))
		if err != nil {
			return false
		}
		answer, err := http.DefaultClient.Do(request)
		return err == nil && answer.Body.Close() == nil && answer.StatusCode/100 == 2
	}, patience, 20*time.Millisecond, path)
}

// TestClientsOfServerSentEvents: clients from npm see every message, over a restart of the service and a crash of its
// Redis.
func TestClientsOfServerSentEvents(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	service := &restartable{address: freeAddress(t), dir: dir}
	service.start(t)
	defer func() { service.stop(t) }()
	for _, subscriber := range []string{"ann", "ben"} {
		service.call(t, http.MethodPut, "/channels/ticker/subscribers/"+subscriber, "")
	}
	pages := exec.CommandContext(t.Context(), "node", "clients.mjs", "http://"+service.address+"/v1")
	pages.Dir, pages.Stderr = "sse", os.Stderr
	output, err := pages.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, pages.Start())
	shown := make(chan string, 10_000)
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			shown <- lines.Text()
		}
	}()
	require.Equal(t, "ready", next(t, shown))
	seen, published := map[string]bool{}, 0
	for _, happens := range []func(){
		func() {},
		func() { service.stop(t); service.start(t) },
		func() { service.killRedis(t) },
	} {
		happens()
		for range 20 {
			published++
			service.call(t, http.MethodPut, fmt.Sprintf("/channels/ticker/messages/m%d", published), "1")
		}
		for len(seen) < 4*published { // four clients
			seen[next(t, shown)] = true
		}
	}
}

func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line := <-lines:
		require.NotContains(t, line, "empty", "a handler was called for a comment")
		return line
	case <-time.After(patience):
		require.FailNow(t, "nothing more is shown")
		return ""
	}
}
