package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/test/process"
)

// startLimit bounds the time until a server, or a whole cluster, is ready. It only ends tests that would otherwise
// hang.
const startLimit = 60 * time.Second

// Start starts a private server, which is stopped when the test ends. If the test fails, the end of the server's log is
// printed.
func Start(t testing.TB, o Options) *Node {
	t.Helper()
	return start(t, spec{opts: o})
}

// StartReplica starts a private replica of a private server, with the same options, and returns when it is in sync.
func StartReplica(t testing.TB, primary *Node) *Node {
	t.Helper()
	replica := start(t, spec{
		opts:  primary.opts,
		certs: primary.certs,
		args:  []string{"--replicaof", loopback, strconv.Itoa(primary.Port())},
	})
	await(t, "the replica to be in sync", func(ctx context.Context) error {
		return replica.expect(ctx, "replication", "master_link_status", "up")
	})
	return replica
}

func start(t testing.TB, s spec) *Node {
	t.Helper()
	n, err := launch(t.Context(), s)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	n.closeAtEnd(t)
	return n
}

// closeAtEnd stops a private server when the test ends.
func (n *Node) closeAtEnd(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if err := n.close(); err != nil {
			t.Errorf("redistest: stop %s: %v", n.Addr(), err)
		}
	})
	n.logOnFailure(t)
}

// spec describes a server to start.
type spec struct {
	opts     Options
	args     []string      // for its role, before Options.Args
	certs    *certificates // of its group of servers; nil: made if Options.TLS is set
	sentinel *Node         // the primary to watch; nil: the server is no Sentinel
	shared   bool
}

// errExited means that the server exited before it served. Another program may have taken its port.
var errExited = errors.New("the server exited")

// launch starts a server on a free port and returns when it serves.
func launch(ctx context.Context, s spec) (*Node, error) {
	const attempts = 3
	for i := 1; ; i++ {
		n, err := prepare(ctx, s)
		if err != nil {
			return nil, err
		}
		if err = n.run(ctx); err == nil {
			return n, nil
		}
		err = errors.Join(err, n.close())
		if i == attempts || !errors.Is(err, errExited) {
			return nil, err
		}
	}
}

// prepare reserves a port, and makes a server's directory and command line.
func prepare(ctx context.Context, s spec) (*Node, error) {
	program, err := s.opts.program()
	if err != nil {
		return nil, err
	}
	dir, err := process.TempDir(ctx, "node-")
	if err != nil {
		return nil, fmt.Errorf("make the server's directory: %w", err)
	}
	port, err := reserve(ctx)
	if err != nil {
		return nil, err
	}
	n := &Node{host: loopback, port: port.port, opts: s.opts, certs: s.certs, shared: s.shared}
	n.free = func() error { return errors.Join(port.release(), os.RemoveAll(dir)) }
	n.proc = &process.Process{Program: program, Dir: dir, LogName: "server.log"}
	if s.opts.TLS && n.certs == nil {
		if n.certs, err = makeCertificates(dir); err != nil {
			return nil, errors.Join(err, n.close())
		}
	}
	if s.sentinel != nil {
		if n.proc.Args, err = sentinelArguments(dir, s.sentinel); err != nil {
			return nil, errors.Join(err, n.close())
		}
	}
	n.proc.Args = append(n.proc.Args, s.opts.arguments(n.Port(), dir, n.certs)...)
	n.proc.Args = append(append(n.proc.Args, s.args...), s.opts.Args...)
	return n, nil
}

// run starts the process and returns when it serves. It fails with errExited if the process exits before.
func (n *Node) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := n.proc.Start(ctx); err != nil {
		return err
	}
	err := poll(ctx, func(ctx context.Context) error {
		if !n.proc.Alive() {
			return final{errExited}
		}
		return n.connect(ctx)
	})
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", n.proc.Program, err, process.LastLines(n.proc.Log(), 30))
	}
	return nil
}

// connect makes the client unless there is one, and checks that this process serves: another program may have the port.
func (n *Node) connect(ctx context.Context) (err error) {
	if n.admin == nil {
		if n.admin, err = rueidis.NewClient(n.clientOption()); err != nil {
			n.admin = nil
			return err
		}
	}
	if n.proc.Alive() {
		if err := n.expect(ctx, "server", "process_id", strconv.Itoa(n.PID())); err != nil {
			return err
		}
	}
	return n.do(ctx, "PING").Error() // fails while the server loads its data
}

func (n *Node) clientOption() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:         []string{n.Addr()},
		Username:            n.opts.Username,
		Password:            n.opts.Password,
		TLSConfig:           n.TLSConfig(),
		ClientSetInfo:       rueidis.DisableClientSetInfo,
		ForceSingleClient:   true,
		DisableCache:        true,
		DisableRetry:        true,
		PipelineMultiplex:   -1,
		RingScaleEachConn:   8,
		ReadBufferEachConn:  1 << 14,
		WriteBufferEachConn: 1 << 14,
	}
}

// expect checks one field of INFO.
func (n *Node) expect(ctx context.Context, section, field, want string) error {
	info, err := n.do(ctx, "INFO", section).ToString()
	if err != nil {
		return fmt.Errorf("read INFO %s of %s: %w", section, n.Addr(), err)
	}
	if !strings.Contains(info, "\n"+field+":"+want+"\r") {
		return fmt.Errorf("%s of %s is not %q:\n%s", field, n.Addr(), want, info)
	}
	return nil
}

// close stops the server and removes its files.
func (n *Node) close() error {
	if n.admin != nil {
		n.admin.Close()
	}
	return errors.Join(n.proc.End(syscall.SIGKILL), n.free())
}
