package redistest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest/container"
)

// TestContainerOutOfReach: testcontainers guesses where Docker's host is. If nothing answers there, the container is
// stopped, and the tests have a process, unless they must have a container.
func TestContainerOutOfReach(t *testing.T) {
	t.Parallel()
	port, err := reserve(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, port.release()) })
	stopped := 0
	run := func(context.Context, string) (container.Server, error) {
		return container.Server{Host: loopback, Port: port.port, Stop: func() error { stopped++; return nil }}, nil
	}

	n, err := startKind(t.Context(), "", "", run)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.close()) })
	require.NoError(t, n.Do(t, "PING").Error())
	require.NotZero(t, n.PID(), "it is a process")
	require.Equal(t, 1, stopped)

	_, err = startKind(t.Context(), "container", "", run)
	require.ErrorContains(t, err, "reach the container at "+port.addr()+": ")
	require.ErrorContains(t, err, "TESTCONTAINERS_HOST_OVERRIDE")
	require.Equal(t, 2, stopped)
}

// TestNamedImage: tests of an image don't have a process of another version instead.
func TestNamedImage(t *testing.T) {
	t.Parallel()
	none := func(context.Context, string) (container.Server, error) {
		return container.Server{}, container.ErrNoEngine
	}
	_, err := startKind(t.Context(), "", "redis:7.0", none)
	require.ErrorIs(t, err, container.ErrNoEngine)

	n, err := startKind(t.Context(), "process", "redis:7.0", none)
	require.NoError(t, err)
	require.NoError(t, n.close())
}
