// Package e2e tests examples/community as its users do: with a browser. `make e2e` runs it.
package e2e

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// setting returns a variable that scripts/e2e.sh sets.
func setting(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	require.NotEmpty(t, value, "scripts/e2e.sh sets %s", name)
	return value
}

// startProgram runs a program until the test ends, and returns what ready captures in a line of its log.
func startProgram(t *testing.T, ready *regexp.Regexp, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines, found := bufio.NewScanner(log), make(chan string)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ready := ready; lines.Scan(); {
			t.Log(filepath.Base(program), lines.Text())
			if match := ready.FindStringSubmatch(lines.Text()); match != nil {
				select {
				case found <- match[1]:
				case <-t.Context().Done():
				}
			}
		}
		_, _ = io.Copy(io.Discard, log)
	}()
	t.Cleanup(func() { // the context has ended
		<-ended
		_ = cmd.Wait()
	})
	select {
	case value := <-found:
		return value
	case <-ended:
		require.FailNow(t, "the program ended before it was ready")
		return ""
	}
}

// freeAddress returns an address on which no process listens. The service must know that of the forum before the forum
// starts.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	return listener.Addr().String()
}

// startForum starts a service and the forum, as in the README of the example but with other addresses, and returns the
// forum's URL.
func startForum(t *testing.T) string {
	t.Helper()
	dir, forum := t.TempDir(), freeAddress(t)
	socket := "unix:" + filepath.Join(dir, "admin.sock")
	service := startProgram(t, regexp.MustCompile(`msg="tidemark is ready" url=(\S+)`),
		setting(t, "TIDEMARK_TEST_BINARY"), "serve",
		"--config", "../../examples/community/tidemark.yaml", "--cors-origins", "http://"+forum, "--data-dir",
		filepath.Join(dir, "data"),
		"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--admin-listen", socket)
	return startProgram(t, regexp.MustCompile(`msg="the forum is ready" url=(\S+)`),
		setting(t, "TIDEMARK_TEST_COMMUNITY"),
		"-listen", forum, "-server", service, "-admin", socket, "-key", filepath.Join(dir, "community.key"), "-data",
		filepath.Join(dir, "community.json"))
}
