package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
			awaitNotice(t, socket, "RELOADING=1")
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
	transport := &http.Transport{DisableKeepAlives: true}
	require.ErrorContains(t, answers(t.Context(), transport, "http://"+l.Addr().String(), 10*time.Millisecond), "deadline")
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

// awaitNotice waits for a notice. The watchdog's come at any time.
func awaitNotice(t *testing.T, socket *net.UnixConn, want string) {
	t.Helper()
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(scriptLimit)))
	for notice := make([]byte, 256); ; {
		n, err := socket.Read(notice)
		require.NoError(t, err, "no notice %q", want)
		if string(notice[:n]) == want {
			return
		}
		require.Equal(t, "WATCHDOG=1", string(notice[:n]))
	}
}
