package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/process"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestNotifiesSystemd: systemd learns when the service is ready, that it answers, reloads and stops.
func TestNotifiesSystemd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	issue(t, dir, "server")
	for name, flags := range map[string][]string{
		"plain": nil,
		"client certificates": {"--tls-cert", filepath.Join(dir, "server.pem"), "--tls-key",
			filepath.Join(dir, "server-key.pem"), "--tls-client-ca", filepath.Join(dir, "ca.pem")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := listenForNotices(t)
			s := startServerWith(t, t.TempDir(), []string{"NOTIFY_SOCKET=" + socket.LocalAddr().String(), "WATCHDOG_USEC=300000"}, flags...)
			awaitNotice(t, socket, "READY=1")
			awaitNotice(t, socket, "WATCHDOG=1")
			awaitNotice(t, socket, "WATCHDOG=1")
			require.NoError(t, s.Signal(syscall.SIGHUP))
			awaitNotice(t, socket, "RELOADING=1\nMONOTONIC_USEC=")
			awaitNotice(t, socket, "READY=1")
			require.NoError(t, s.End(syscall.SIGTERM))
			s.killed = true
			awaitNotice(t, socket, notifyStopping)
		})
	}
}

// TestWatchdogNeedsAnAnswer: a listener whose connections nobody serves isn't enough.
func TestWatchdogNeedsAnAnswer(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // nobody has connected
	require.ErrorContains(t, answers(t.Context(), newLivez(l.Addr().String(), false), 10*time.Millisecond), "deadline")
}

// TestWatchdogNeedsNoPlaceAmongClients: the watchdog asks the admin listener, if there is one.
func TestWatchdogNeedsNoPlaceAmongClients(t *testing.T) {
	t.Parallel()
	var listeners [2]net.Listener
	for i := range listeners {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close() //nolint:errcheck // nobody has connected
		listeners[i] = l
	}
	clients, admin := listeners[0], listeners[1]
	require.Equal(t, "http://"+admin.Addr().String()+"/livez", watched(listening{}, clients, admin).url)
	require.Equal(t, "http://"+clients.Addr().String()+"/livez", watched(listening{}, clients, nil).url)
}

// TestNodeNotifiesSystemd: a node answers the watchdog, also without an admin listener.
func TestNodeNotifiesSystemd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	issue(t, dir, "server")
	server := redistest.Start(t, redistest.Options{})
	shardsCommand(t, server, "layout", "--dc", "a", "--shards", "1")
	for name, flags := range map[string][]string{
		"admin socket": {"--admin-listen", "unix:admin.sock"},
		"gRPC":         {"--admin-listen", "off"},
		"client certificates": {"--admin-listen", "off", "--tls-cert", filepath.Join(dir, "server.pem"), "--tls-key",
			filepath.Join(dir, "server-key.pem"), "--tls-client-ca", filepath.Join(dir, "ca.pem")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := listenForNotices(t)
			program, err := exec.LookPath("tidemark")
			require.NoError(t, err)
			node := &process.Process{
				Program: program, LogName: "log", Dir: t.TempDir(),
				Args: append([]string{"shard", "serve", "--redis", server.URL(), "--cache", "author", "--dc", "a",
					"--listen", "127.0.0.1:0"}, flags...),
				Env: []string{"PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + socket.LocalAddr().String(),
					"WATCHDOG_USEC=300000"},
			}
			require.NoError(t, node.Start(t.Context()))
			awaitNotice(t, socket, "READY=1")
			awaitNotice(t, socket, "WATCHDOG=1")
			awaitNotice(t, socket, "WATCHDOG=1")
			require.NoError(t, node.Signal(syscall.SIGHUP))
			awaitNotice(t, socket, "RELOADING=1\nMONOTONIC_USEC=")
			awaitNotice(t, socket, "READY=1")
			require.NoError(t, node.End(syscall.SIGTERM))
			awaitNotice(t, socket, notifyStopping)
		})
	}
}

func listenForNotices(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // shorter than a test's own
	require.NoError(t, err)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, socket.Close())
		require.NoError(t, os.RemoveAll(dir))
	})
	return socket
}

// awaitNotice waits for a notice that begins with a text. The watchdog's come at any time.
func awaitNotice(t *testing.T, socket *net.UnixConn, want string) {
	t.Helper()
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(scriptLimit)))
	for notice := make([]byte, 256); ; {
		n, err := socket.Read(notice)
		require.NoError(t, err, "no notice %q", want)
		if strings.HasPrefix(string(notice[:n]), want) {
			return
		}
		require.Equal(t, "WATCHDOG=1", string(notice[:n]))
	}
}
