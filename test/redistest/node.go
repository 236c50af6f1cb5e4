package redistest

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/test/process"
)

// Prefix returns a new prefix for keys, or channel names, that no other test uses.
func Prefix(t testing.TB) string {
	t.Helper()
	return "t" + strings.ToLower(ulid.Make().String()) + ":"
}

// Node is one server. A private one may be killed, paused and restarted; a shared one may not.
type Node struct {
	host   string
	port   int
	opts   Options
	certs  *certificates    // nil without TLS
	admin  rueidis.Client   // for this server only; reconnects after a restart
	proc   *process.Process // never started for a container
	shared bool
	free   func() error // removes the server's files and port after it has ended
}

// Addr returns the server's host:port.
func (n *Node) Addr() string { return net.JoinHostPort(n.host, strconv.Itoa(n.port)) }

// Port returns the server's port.
func (n *Node) Port() int { return n.port }

// URL returns the server's address as redis://, or rediss:// with TLS, with the user and the password if it has them.
func (n *Node) URL() string {
	u := url.URL{Scheme: "redis", Host: n.Addr()}
	if n.certs != nil {
		u.Scheme = "rediss"
	}
	if n.opts.Password != "" {
		u.User = url.UserPassword(n.opts.Username, n.opts.Password)
	}
	return u.String()
}

// TLSConfig returns a client configuration that trusts the server, or nil without TLS.
func (n *Node) TLSConfig() *tls.Config {
	if n.certs == nil {
		return nil
	}
	return n.certs.client.Clone()
}

// CAFile returns the path of the CA certificate, or "" without TLS.
func (n *Node) CAFile() string {
	if n.certs == nil {
		return ""
	}
	return n.certs.caFile
}

// Client returns a client of this one server, which follows no redirection. The test must not close it.
func (n *Node) Client() rueidis.Client { return n.admin }

// doLimit bounds a command to a server that doesn't answer, so that a test fails instead of hanging.
const doLimit = 30 * time.Second

// Do sends one command to this server, such as Do(t, "CONFIG", "SET", "maxmemory", "8mb"), and waits at most 30 s for
// the reply. The result holds any error, redirections included.
func (n *Node) Do(t testing.TB, args ...string) rueidis.RedisResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), doLimit)
	defer cancel()
	return n.do(ctx, args...)
}

func (n *Node) do(ctx context.Context, args ...string) rueidis.RedisResult {
	return n.admin.Do(ctx, n.admin.B().Arbitrary(args...).Build())
}

// Dir returns the directory in which the server keeps its files, or "" for a container.
func (n *Node) Dir() string { return n.proc.Dir }

// PID returns the process ID of the server, also after its end, or 0 for a container.
func (n *Node) PID() int { return n.proc.PID() }

// Kill ends a private server with SIGKILL and waits for its end. It does nothing if the server has ended.
func (n *Node) Kill(t testing.TB) {
	t.Helper()
	n.must(t, "kill", n.private(t).End(syscall.SIGKILL))
}

// Stop ends a private server with SIGTERM and waits for its end. Its files stay.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	n.must(t, "stop", n.private(t).End(syscall.SIGTERM))
}

// Restart starts a private server again after Kill or Stop, on the same port and in the same directory, and returns
// when it serves. It has only the data that Options.Args made it write to disk.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.private(t)
	n.must(t, "restart", n.run(t.Context()))
}

// Pause stops a private server with SIGSTOP: its connections stay open, but it doesn't answer.
func (n *Node) Pause(t testing.TB) {
	t.Helper()
	n.must(t, "pause", n.private(t).Signal(syscall.SIGSTOP))
}

// Resume continues a paused server.
func (n *Node) Resume(t testing.TB) {
	t.Helper()
	n.must(t, "resume", n.private(t).Signal(syscall.SIGCONT))
}

func (n *Node) must(t testing.TB, do string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("redistest: %s %s: %v", do, n.Addr(), err)
	}
}

// private returns the process of a server that a test may disturb.
func (n *Node) private(t testing.TB) *process.Process {
	t.Helper()
	if n.shared {
		t.Fatalf("redistest: other tests use %s too; use Start to get a private server", n.Addr())
	}
	return n.proc
}

// logOnFailure prints the end of the server's subsequent log if the test fails.
func (n *Node) logOnFailure(t testing.TB) {
	t.Helper()
	begin := len(n.proc.Log())
	t.Cleanup(func() {
		if log := n.proc.Log(); t.Failed() && len(log) > begin {
			t.Logf("redistest: log of %s:\n%s", n.Addr(), process.LastLines(log[begin:], 30))
		}
	})
}
