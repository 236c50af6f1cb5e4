// Package e2e tests the examples as their users do: with a browser. `make e2e` runs it.
package e2e

import (
	"bufio"
	"context"
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
func setting(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	require.NotEmpty(t, value, "scripts/e2e.sh sets %s", name)
	return value
}

// startProgram runs a program until the test ends, and returns what ready captures in a line of its log.
func startProgram(t testing.TB, ready *regexp.Regexp, program string, args ...string) string {
	t.Helper()
	value, _ := runProgram(t, ready, program, args...)
	return value
}

// runProgram runs a program until end is called or the test ends. It returns what ready captures in a line of its log.
func runProgram(t testing.TB, ready *regexp.Regexp, program string, args ...string) (value string, end func()) {
	t.Helper()
	value, endBy := runUntilSignal(t, ready, program, args...)
	return value, func() { endBy(syscall.SIGTERM) }
}

// runUntilSignal is runProgram with an end by any signal.
func runUntilSignal(t testing.TB, ready *regexp.Regexp, program string, args ...string) (value string,
	end func(syscall.Signal)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, program, args...)
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
				case <-ctx.Done():
				}
			}
		}
		_, _ = io.Copy(io.Discard, log)
		_ = cmd.Wait()
	}()
	end = func(signal syscall.Signal) {
		_ = cmd.Process.Signal(signal) // it may have ended
		<-ended
		cancel()
	}
	t.Cleanup(func() { end(syscall.SIGTERM) })
	select {
	case value := <-found:
		return value, end
	case <-ended:
		require.FailNow(t, "the program ended before it was ready")
		return "", nil
	}
}

// freeAddress returns an address on which no process listens, for a program whose address another must know before it
// starts. It isn't on 127.0.0.1, where connections and other programs take a free port at any time.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.2:0")
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
		filepath.Join(dir, "community.json"), "-client", "../../clients/typescript/dist/tidemark.min.js")
}
