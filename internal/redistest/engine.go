package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
	"go.uber.org/goleak"
)

// Environment variables that choose the shared standalone server, see Standalone.
const (
	kindEnv  = "TIDEMARK_TEST_REDIS"
	imageEnv = "TIDEMARK_TEST_REDIS_IMAGE"
)

// Images that are taken where imageEnv names none.
const (
	publicImage = "redis:7.4-alpine"
	localImage  = "tidemark-test-redis:local" // made by make-image.sh
)

// pullLimit is how long an image may take to come.
const pullLimit = 3 * time.Minute

// errNoEngine means that no Docker engine answers.
var errNoEngine = errors.New("no Docker engine answers")

// reaperConnection is what testcontainers keeps open until the process ends.
var reaperConnection = goleak.IgnoreAnyFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1")

// startStandalone starts the kind of server that kindEnv asks for.
func startStandalone(ctx context.Context) (*Node, error) {
	local := spec{shared: true}
	switch kind := os.Getenv(kindEnv); kind {
	case "process":
		return launchNew(ctx, local)
	case "container":
		n, err := launchContainer(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s is container: %w", kindEnv, err)
		}
		return n, nil
	case "":
		n, err := launchContainer(ctx)
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, errNoEngine) {
			fmt.Fprintf(os.Stderr, "redistest: use a redis-server process, as %v\n", err)
		}
		return launchNew(ctx, local)
	default:
		return nil, fmt.Errorf(`%s is %q, neither "container" nor "process"`, kindEnv, kind)
	}
}

// launchContainer starts the shared server as a container. It fails with errNoEngine where there is no
// engine, at once where nothing names or holds an engine's socket.
func launchContainer(ctx context.Context) (*Node, error) {
	ctx, cancel := context.WithTimeout(ctx, pullLimit+startLimit)
	defer cancel()
	quiet := testcontainers.WithLogger(log.NewNoopLogger())
	provider, err := testcontainers.NewDockerProvider(quiet)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoEngine, err)
	}
	image := chooseImage(ctx, provider)
	err = errors.Join(pull(ctx, provider, image), provider.Close())
	if err != nil {
		return nil, err
	}
	container, err := testcontainers.Run(ctx, image, quiet,
		testcontainers.WithCmd("redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "",
			"--enable-debug-command", "yes"),
		testcontainers.WithExposedPorts("6379/tcp"),
		testcontainers.WithWaitStrategy(wait.ForLog("Ready to accept connections")))
	stop := func() error { return testcontainers.TerminateContainer(container) }
	if err != nil {
		return nil, errors.Join(fmt.Errorf("run a container of %s: %w", image, err), stop())
	}
	n, err := connectContainer(ctx, container)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reach the container of %s: %w", image, err), stop())
	}
	n.stop = stop
	return n, nil
}

// chooseImage returns the image that is asked for, else one that the engine has, else the public one.
func chooseImage(ctx context.Context, provider *testcontainers.DockerProvider) string {
	if image := os.Getenv(imageEnv); image != "" {
		return image
	}
	if !has(ctx, provider, publicImage) && has(ctx, provider, localImage) {
		return localImage
	}
	return publicImage
}

func has(ctx context.Context, provider *testcontainers.DockerProvider, image string) bool {
	_, err := provider.Client().ImageInspect(ctx, image)
	return err == nil
}

// pull gets an image that the engine hasn't got.
func pull(ctx context.Context, provider *testcontainers.DockerProvider, image string) error {
	if has(ctx, provider, image) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	if err := provider.PullImage(ctx, image); err != nil {
		return fmt.Errorf("pull image %s (internal/redistest/make-image.sh makes one without a registry): %w",
			image, err)
	}
	return nil
}

func connectContainer(ctx context.Context, container *testcontainers.DockerContainer) (*Node, error) {
	host, err := container.Host(ctx)
	if err != nil {
		return nil, err
	}
	port, err := container.MappedPort(ctx, "6379/tcp")
	if err != nil {
		return nil, err
	}
	n := &Node{host: host, port: int(port.Num())}
	if err := poll(ctx, n.greet); err != nil {
		return nil, err
	}
	return n, nil
}
