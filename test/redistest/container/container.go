// Package container runs the shared Redis of package redistest in a Docker container.
package container

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
	"go.uber.org/goleak"
)

// Server is a Redis in a container. Stop removes the container.
type Server struct {
	Host string
	Port int
	Stop func() error
}

// ErrNoEngine means that no Docker engine answers.
var ErrNoEngine = errors.New("no Docker engine answers")

// Reaper ignores a goroutine that testcontainers keeps until the process ends.
var Reaper = goleak.IgnoreAnyFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1")

// The default images.
const (
	publicImage = "redis:7.4-alpine"
	localImage  = "tidemark-test-redis:local" // made by make-image.sh
)

const (
	pullLimit  = 3 * time.Minute
	startLimit = time.Minute
)

// Start starts a container of an image, or of a default one if image is empty. It fails with ErrNoEngine if there is no
// Docker engine.
func Start(ctx context.Context, image string) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, pullLimit+startLimit)
	defer cancel()
	quiet := testcontainers.WithLogger(log.NewNoopLogger())
	image, err := pull(ctx, quiet, image)
	if err != nil {
		return Server{}, err
	}
	c, err := testcontainers.Run(ctx, image, quiet,
		testcontainers.WithCmd("redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "",
			"--enable-debug-command", "yes"),
		testcontainers.WithExposedPorts("6379/tcp"),
		testcontainers.WithWaitStrategy(wait.ForLog("Ready to accept connections")))
	s := Server{Stop: func() error { return testcontainers.TerminateContainer(c) }}
	if err == nil {
		s.Host, err = c.Host(ctx)
	}
	if err == nil {
		port, portErr := c.MappedPort(ctx, "6379/tcp")
		s.Port, err = int(port.Num()), portErr
	}
	if err != nil {
		return Server{}, errors.Join(fmt.Errorf("run a container of %s: %w", image, err), s.Stop())
	}
	return s, nil
}

// pull ensures that the engine has an image, and returns its name.
func pull(ctx context.Context, quiet testcontainers.LoggerOption, image string) (_ string, err error) {
	provider, err := testcontainers.NewDockerProvider(quiet)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	has := func(image string) bool {
		_, err := provider.Client().ImageInspect(ctx, image)
		return err == nil
	}
	if image == "" {
		image = publicImage
		if !has(publicImage) && has(localImage) {
			image = localImage
		}
	}
	if has(image) {
		return image, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	if err := provider.PullImage(ctx, image); err != nil {
		return "", fmt.Errorf(
			"pull image %s (test/redistest/container/make-image.sh makes one without a registry): %w", image, err)
	}
	return image, nil
}
