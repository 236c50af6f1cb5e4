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

	"github.com/tidemark-dev/tidemark/internal/process"
)

// startLimit is how long a server, or a whole cluster, may take until it serves. It only ends tests that
// would otherwise hang.
const startLimit = 60 * time.Second

// Start starts a private server, which is stopped when the test ends. The end of its log is printed
// where the test fails.
func Start(t testing.TB, o Options) *Node {
	t.Helper()
	return start(t, spec{opts: o})
}

// StartReplica starts a private replica of a private server, and returns when it is in sync. It takes the
// primary's options.
func StartReplica(t testing.TB, primary *Node) *Node {
	t.Helper()
	replica := start(t, spec{
		opts:  primary.opts,
		certs: primary.certs,
		args:  []string{"--replicaof", primary.host, strconv.Itoa(primary.port)},
	})
	await(t, "the replica to be in sync", func(ctx context.Context) error {
		return replica.expect(ctx, "replication", "master_link_status", "up")
	})
	return replica
}

func start(t testing.TB, s spec) *Node {
	t.Helper()
	n, err := launchNew(t.Context(), s)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	closeAtEnd(t, n)
	return n
}

// closeAtEnd ends a private server with the test.
func closeAtEnd(t testing.TB, n *Node) {
	t.Helper()
	t.Cleanup(func() {
		if err := n.close(); err != nil {
			t.Errorf("redistest: stop %s: %v", n.Addr(), err)
		}
	})
	n.logOnFailure(t)
}

// spec is a server to be started.
type spec struct {
	opts     Options
	args     []string      // what its role needs, before Options.Args
	certs    *certificates // of its group of servers; nil: made here where Options.TLS asks for it
	sentinel *Node         // the primary to watch, for a sentinel; else nil
	shared   bool
}

// errEarlyExit means that the server ended before it served. Its port may have been taken meanwhile.
var errEarlyExit = errors.New("the server ended at once")

// launchNew starts a server on a free port and returns when it answers.
func launchNew(ctx context.Context, s spec) (*Node, error) {
	program, err := s.opts.program()
	if err != nil {
		return nil, err
	}
	const attempts = 3
	for i := 1; ; i++ {
		n, err := prepare(ctx, s)
		if err != nil {
			return nil, err
		}
		n.proc.Program = program
		if err = n.launch(ctx); err == nil {
			return n, nil
		}
		err = errors.Join(err, n.close())
		if i == attempts || !errors.Is(err, errEarlyExit) {
			return nil, err
		}
	}
}

// prepare reserves a port and a directory for a server.
func prepare(ctx context.Context, s spec) (*Node, error) {
	dir, err := process.TempDir(ctx, "node-")
	if err != nil {
		return nil, fmt.Errorf("make the server's directory: %w", err)
	}
	port, err := reserve(ctx)
	if err != nil {
		return nil, err
	}
	n := &Node{host: loopback, port: port.port, opts: s.opts, certs: s.certs}
	n.proc, n.shared = &process.Process{Dir: dir, LogName: "server.log"}, s.shared
	n.stop = func() error {
		return errors.Join(n.proc.End(syscall.SIGKILL), port.release(), os.RemoveAll(dir))
	}
	if err := n.configure(s); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// configure makes the server's command line, and the files that it names.
func (n *Node) configure(s spec) (err error) {
	var first []string
	if s.opts.TLS && n.certs == nil {
		if n.certs, err = makeCertificates(n.proc.Dir); err != nil {
			return err
		}
	}
	if s.sentinel != nil {
		if first, err = sentinelArguments(n.proc.Dir, s.sentinel); err != nil {
			return err
		}
	}
	opts := s.opts
	opts.Args = append(append([]string{}, s.args...), s.opts.Args...)
	n.proc.Args = append(first, opts.arguments(n.port, n.proc.Dir, n.certs)...)
	return nil
}

// launch starts the process and returns when it answers. It fails with errEarlyExit where the process ended
// before.
func (n *Node) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := n.proc.Start(ctx); err != nil {
		return err
	}
	err := poll(ctx, func(ctx context.Context) error {
		if !n.proc.Alive() {
			return final{errEarlyExit}
		}
		return n.greet(ctx)
	})
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", n.proc.Program, err, process.LastLines(n.proc.Log(), 30))
	}
	return nil
}

// greet connects where that is still to be done, and checks that it is this process that answers: another
// program may hold the port.
func (n *Node) greet(ctx context.Context) error {
	if n.admin == nil {
		client, err := rueidis.NewClient(n.clientOption())
		if err != nil {
			return err
		}
		n.admin = client
	}
	if n.proc != nil {
		if err := n.expect(ctx, "server", "process_id", strconv.Itoa(n.proc.PID())); err != nil {
			return err
		}
	}
	return n.do(ctx, "PING").Error() // fails while it loads its data
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
	for line := range strings.Lines(info) {
		if got, ok := strings.CutPrefix(line, field+":"); ok {
			if got = strings.TrimSpace(got); got != want {
				return fmt.Errorf("%s of %s is %q, not %q", field, n.Addr(), got, want)
			}
			return nil
		}
	}
	return fmt.Errorf("INFO %s of %s has no %s", section, n.Addr(), field)
}
