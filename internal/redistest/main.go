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

	"github.com/tidemark-dev/tidemark/internal/process"
)

// Main is the body of a package's TestMain. It runs the tests, stops the shared servers, and then fails the
// run where a goroutine is left over that the options don't excuse.
func Main(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "redistest: stop the shared servers:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := findLeaks(options); err != nil {
			fmt.Fprintln(os.Stderr, "redistest:", err)
			code = 1
		}
	}
	if err := process.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "redistest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// findLeaks gives goroutines of closed clients the time to end, which goleak alone keeps too short.
func findLeaks(options []goleak.Option) error {
	//nolint:forbidigo // TestMain has no context to hand on
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	options = append([]goleak.Option{reaperConnection}, options...)
	return poll(ctx, func(context.Context) error { return goleak.Find(options...) })
}

// Servers that the tests of this binary share.
var (
	standalone shared[*Node]
	cluster    shared[*ClusterNodes]
	valkey     shared[*Node]
)

// shared is something that is made when it is first asked for.
type shared[T any] struct {
	mu    sync.Mutex
	made  bool
	value T
	err   error
}

// get makes it, or returns what came of making it before.
func (s *shared[T]) get(ctx context.Context, makeIt func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.made {
		s.value, s.err = makeIt(context.WithoutCancel(ctx))
		s.made = true
	}
	return s.value, s.err
}

// take returns what was made, if anything was.
func (s *shared[T]) take() (value T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.made && s.err == nil
}

func stopShared() error {
	var errs []error
	if n, ok := standalone.take(); ok {
		errs = append(errs, n.close())
	}
	if n, ok := valkey.take(); ok {
		errs = append(errs, n.close())
	}
	if c, ok := cluster.take(); ok {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// Standalone returns the standalone Redis that all tests of this test binary share.
//
// The environment variable TIDEMARK_TEST_REDIS says what it is: "container", or "process" for a redis-server
// of this machine. Unset, it is a container where a Docker engine answers and has or can get the image, else
// a process. TIDEMARK_TEST_REDIS_IMAGE names the image. The test fails where neither can be had. A container is
// removed after a test binary that was killed by Ryuk, and so not where TESTCONTAINERS_RYUK_DISABLED is true.
func Standalone(t testing.TB) *Node {
	t.Helper()
	n, err := standalone.get(t.Context(), startStandalone)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	n.logOnFailure(t)
	return n
}

// Cluster returns the Cluster of three primaries, each with a replica, that all tests of this test binary
// share. Its slots must stay where they are: a test that moves slots starts its own with StartCluster.
func Cluster(t testing.TB) *ClusterNodes {
	t.Helper()
	c, err := cluster.get(t.Context(), func(ctx context.Context) (*ClusterNodes, error) {
		return launchCluster(ctx, Options{}, true)
	})
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	for _, n := range c.nodes {
		n.logOnFailure(t)
	}
	return c
}

// Valkey returns the standalone Valkey that all tests of this test binary share, or false where this machine
// has no valkey-server.
func Valkey(t testing.TB) (*Node, bool) {
	t.Helper()
	const program = "valkey-server"
	if _, err := exec.LookPath(program); err != nil {
		return nil, false
	}
	n, err := valkey.get(t.Context(), func(ctx context.Context) (*Node, error) {
		return launchNew(ctx, spec{opts: Options{Binary: program}, shared: true})
	})
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	n.logOnFailure(t)
	return n, true
}
