package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/test/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProxyForwards(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	echo(t, conn, "hello\n")
}

func TestCutResetsOpenConnections(t *testing.T) {
	t.Parallel()
	p, conn := start(t)
	echo(t, conn, "hello\n")
	p.Cut()
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
	echo(t, dial(t, p), "again\n")
}

func TestRefusedConnectionsEndAtOnce(t *testing.T) {
	t.Parallel()
	p, conn := start(t)
	echo(t, conn, "hello\n")
	p.Refuse(true)
	requireRefused(t, p)
	echo(t, conn, "still here\n")
}

func TestHoldKeepsBytesBack(t *testing.T) {
	t.Parallel()
	for name, only := range map[string][]proxy.Direction{
		"both": nil, "requests": {proxy.ToServer}, "replies": {proxy.ToClient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, conn := start(t)
			echo(t, conn, "hello\n")
			p.Hold(only...)
			_, err := io.WriteString(conn, "held\n")
			require.NoError(t, err)
			require.NoError(t, conn.(*net.TCPConn).CloseWrite()) // so that the server ends, too
			requireSilence(t, conn)
			p.Pass()
			got, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Equal(t, "held\n", string(got))
		})
	}
}

func TestHoldAcceptsConnectionsToADeadTarget(t *testing.T) {
	t.Parallel()
	p, _ := start(t)
	p.SetTarget("127.0.0.1:1")
	p.Hold()
	conn := dial(t, p)
	requireSilence(t, conn)
	p.Cut()
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
}

// requireSilence requires that a connection is open, and receives nothing for now.
func requireSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.NoError(t, conn.SetReadDeadline(time.Time{}))
}

func TestSlowConnectionsDeliverEverything(t *testing.T) {
	t.Parallel()
	p, conn := start(t)
	p.Slow(time.Millisecond, 100)
	echo(t, conn, "twenty bytes in line\n")
	p.Slow(20*time.Millisecond, 0)
	all := strings.Repeat("on their way at the same time\n", 1000)
	_, err := io.WriteString(conn, all)
	require.NoError(t, err)
	got := make([]byte, len(all))
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, all, string(got))
	p.Slow(time.Hour, 0)
	_, err = io.WriteString(conn, "late\n")
	require.NoError(t, err)
	requireSilence(t, conn)
}

func TestSetTargetMovesNewConnections(t *testing.T) {
	t.Parallel()
	p, conn := start(t)
	echo(t, conn, "hello\n")
	p.SetTarget("127.0.0.1:1")
	requireRefused(t, p)
	echo(t, conn, "still here\n")
}

// requireRefused requires that a new connection ends at once, perhaps before it is noticed to be open.
func requireRefused(t *testing.T, p *proxy.Proxy) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr())
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	require.Error(t, err)
}

// start returns a proxy in front of a server that sends back what it reads, and a connection through it.
func start(t *testing.T) (*proxy.Proxy, net.Conn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				_, _ = io.Copy(conn, conn) // it ends with the connection
				_ = conn.Close()
			})
		}
	})
	p, err := proxy.New(t.Context(), l.Addr().String())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() { p.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		running.Wait()
	})
	return p, dial(t, p)
}

func dial(t *testing.T, p *proxy.Proxy) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func echo(t *testing.T, conn net.Conn, line string) {
	t.Helper()
	_, err := io.WriteString(conn, line)
	require.NoError(t, err)
	got, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, line, got)
}
