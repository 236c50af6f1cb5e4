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

	"github.com/tidemark-dev/tidemark/internal/process"
)

// Prefix returns a new prefix for keys, or channel names, that no other test uses.
func Prefix(t testing.TB) string {
	t.Helper()
	return "t" + strings.ToLower(ulid.Make().String()) + ":"
}

// Node is one running server. A private one may be killed, paused and restarted; a shared one may not.
type Node struct {
	host   string
	port   int
	opts   Options
	certs  *certificates    // nil without TLS
	admin  rueidis.Client   // talks to this server alone, and reconnects after a restart
	proc   *process.Process // nil for a container
	shared bool
	stop   func() error // ends the server and frees what it held
}

// Addr returns the server's host:port.
func (n *Node) Addr() string { return net.JoinHostPort(n.host, strconv.Itoa(n.port)) }

// Port returns the server's port.
func (n *Node) Port() int { return n.port }

// URL returns the server's address as redis://, or rediss:// with TLS, with user and password where it has
// them.
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

// TLSConfig returns a client configuration that trusts the server, or nil where it speaks no TLS.
func (n *Node) TLSConfig() *tls.Config {
	if n.certs == nil {
		return nil
	}
	return n.certs.client.Clone()
}

// CAFile returns the path of the CA certificate to trust, or "" where the server speaks no TLS.
func (n *Node) CAFile() string {
	if n.certs == nil {
		return ""
	}
	return n.certs.caFile
}

// Client returns a client of this one server, which follows no redirection. It is closed with the server:
// the test must not close it.
func (n *Node) Client() rueidis.Client { return n.admin }

// doLimit ends a command to a server that doesn't answer, so that a test fails rather than hangs.
const doLimit = 30 * time.Second

// Do sends one command to this server, such as Do(t, "CONFIG", "SET", "maxmemory", "8mb"). It waits for the
// answer at most 30 s. Errors, redirections among them, are in the result.
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
func (n *Node) Dir() string {
	if n.proc == nil {
		return ""
	}
	return n.proc.Dir
}

// PID returns the process ID of the server as it runs or last ran, or 0 for a container.
func (n *Node) PID() int {
	if n.proc == nil {
		return 0
	}
	return n.proc.PID()
}

// Kill ends a private server with SIGKILL, and returns when it is gone. It does nothing where it is gone
// already.
func (n *Node) Kill(t testing.TB) {
	t.Helper()
	n.end(t, syscall.SIGKILL)
}

// Stop ends a private server with SIGTERM, and returns when it is gone. Dir stays.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	n.end(t, syscall.SIGTERM)
}

func (n *Node) end(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := n.private(t).End(sig); err != nil {
		t.Fatalf("redistest: end %s: %v", n.Addr(), err)
	}
}

// Restart starts a private server again after Kill or Stop, on its port and in its directory, and returns
// when it answers. What it still knows is what Options.Args had it write to disk.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.private(t)
	if err := n.launch(t.Context()); err != nil {
		t.Fatalf("redistest: restart %s: %v", n.Addr(), err)
	}
}

// Pause freezes a private server with SIGSTOP: its connections stay open, and nothing is answered.
func (n *Node) Pause(t testing.TB) {
	t.Helper()
	n.signal(t, syscall.SIGSTOP)
}

// Resume lets a paused server go on.
func (n *Node) Resume(t testing.TB) {
	t.Helper()
	n.signal(t, syscall.SIGCONT)
}

func (n *Node) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := n.private(t).Signal(sig); err != nil {
		t.Fatalf("redistest: send %v to %s: %v", sig, n.Addr(), err)
	}
}

// private returns the process of a server that a test may disturb.
func (n *Node) private(t testing.TB) *process.Process {
	t.Helper()
	if n.proc == nil || n.shared {
		t.Fatalf("redistest: %s is shared by tests: disturb one of Start's", n.Addr())
	}
	return n.proc
}

// close ends the server for good.
func (n *Node) close() error {
	if n.admin != nil {
		n.admin.Close()
	}
	return n.stop()
}

// logOnFailure prints what the server logs from now on, or the end of it, where the test fails.
func (n *Node) logOnFailure(t testing.TB) {
	t.Helper()
	if n.proc == nil {
		return
	}
	begin := len(n.proc.Log())
	t.Cleanup(func() {
		if log := n.proc.Log(); t.Failed() && len(log) > begin {
			t.Logf("redistest: log of %s:\n%s", n.Addr(), process.LastLines(log[begin:], 30))
		}
	})
}
