package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/test/process"
	"github.com/tidemark-dev/tidemark/test/redistest/container"
)

// Main is the body of a package's TestMain. It runs the tests and stops the shared servers. It fails the run if a
// goroutine is left that the options don't exclude.
func Main(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	err := errors.Join(standalone.close(), valkey.close(), cluster.close())
	if code == 0 {
		err = errors.Join(err, findLeaks(options))
	}
	if err = errors.Join(err, process.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, "redistest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// findLeaks gives the goroutines of closed clients more time to end than goleak does.
func findLeaks(options []goleak.Option) error {
	//nolint:forbidigo // TestMain has no context
	// rueidis closes the connections to nodes that are gone after 5 s
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	options = append(options, container.Reaper)
	return poll(ctx, func(context.Context) error { return goleak.Find(options...) })
}

// The servers that all tests of this binary share.
var (
	standalone shared[*Node]
	valkey     shared[*Node]
	cluster    shared[*ClusterNodes]
)

// shared is a server, or a group of them, that starts on first use.
type shared[T interface{ close() error }] struct {
	once    sync.Once
	value   T
	err     error
	started bool
}

func (s *shared[T]) get(t testing.TB, start func(context.Context) (T, error)) T {
	t.Helper()
	s.once.Do(func() {
		s.value, s.err = start(context.WithoutCancel(t.Context()))
		s.started = s.err == nil
	})
	if s.err != nil {
		t.Fatalf("redistest: %v", s.err)
	}
	return s.value
}

// close stops what was started. All tests must have ended.
func (s *shared[T]) close() error {
	if !s.started {
		return nil
	}
	return s.value.close()
}

// Standalone returns the standalone Redis that all tests of this test binary share. The environment variable
// TIDEMARK_TEST_REDIS chooses it:
//
//   - "process": a redis-server of this machine.
//   - "container": a container of the image that TIDEMARK_TEST_REDIS_IMAGE names. Ryuk removes it even if the test
//     binary is killed, unless TESTCONTAINERS_RYUK_DISABLED is true.
//   - Not set: "container" if TIDEMARK_TEST_REDIS_IMAGE is set. Otherwise a container if a Docker engine answers, the
//     image can be pulled, and the container is reached; else a process.
func Standalone(t testing.TB) *Node {
	t.Helper()
	n := standalone.get(t, startStandalone)
	n.logOnFailure(t)
	return n
}

func startStandalone(ctx context.Context) (*Node, error) {
	return startKind(ctx, os.Getenv("TIDEMARK_TEST_REDIS"), os.Getenv("TIDEMARK_TEST_REDIS_IMAGE"), container.Start)
}

// startKind starts a standalone Redis of a kind of Standalone. start starts a container of an image, or of the usual one
// for "".
func startKind(ctx context.Context, kind, image string,
	start func(ctx context.Context, image string) (container.Server, error),
) (*Node, error) {
	if kind != "" && kind != "process" && kind != "container" {
		return nil, fmt.Errorf(`TIDEMARK_TEST_REDIS is %q, neither "container" nor "process"`, kind)
	}
	if kind == "" && image != "" { // a process would be another version than the one that is to be tested
		kind = "container"
	}
	if kind != "process" {
		c, err := start(ctx, image)
		if err == nil {
			var n *Node
			if n, err = reach(ctx, c); err == nil {
				return n, nil
			}
		}
		if kind == "container" {
			return nil, err
		}
		if !errors.Is(err, container.ErrNoEngine) {
			fmt.Fprintf(os.Stderr, "redistest: using a redis-server process: %v\n", err)
		}
	}
	return launch(ctx, spec{shared: true})
}

// reachLimit bounds the time until the Redis of a container, which serves already, is reached.
const reachLimit = 5 * time.Second

// reach returns the Redis of a container, or stops it if nothing answers at the address that testcontainers names.
func reach(ctx context.Context, c container.Server) (*Node, error) {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	n := &Node{host: c.Host, port: c.Port, proc: new(process.Process), shared: true, free: c.Stop}
	if err := poll(ctx, n.connect); err != nil {
		return nil, errors.Join(fmt.Errorf("reach the container at %s: %w; if Docker's host has another address, set "+
			"TESTCONTAINERS_HOST_OVERRIDE to it", n.Addr(), err), n.close())
	}
	return n, nil
}

// Valkey returns the standalone Valkey that all tests of this test binary share, or false if valkey-server isn't on
// PATH.
func Valkey(t testing.TB) (*Node, bool) {
	t.Helper()
	const program = "valkey-server"
	if _, err := exec.LookPath(program); err != nil {
		return nil, false
	}
	n := valkey.get(t, func(ctx context.Context) (*Node, error) {
		return launch(ctx, spec{opts: Options{Binary: program}, shared: true})
	})
	n.logOnFailure(t)
	return n, true
}

// Cluster returns the Cluster of three primaries, each with a replica, that all tests of this test binary share. A test
// that moves slots starts its own with StartCluster.
func Cluster(t testing.TB) *ClusterNodes {
	t.Helper()
	c := cluster.get(t, func(ctx context.Context) (*ClusterNodes, error) { return launchCluster(ctx, Options{}, true) })
	for _, n := range c.nodes {
		n.logOnFailure(t)
	}
	return c
}
