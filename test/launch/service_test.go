package launch_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/launch"
)

// The error of a service that exits at each start says why.
func TestAwaitReportsCrash(t *testing.T) {
	t.Parallel()
	service, err := launch.New(t.Context(), launch.Options{
		Program: "sh", Args: []string{"-c", "echo unknown flag; exit 2"},
		Listen: []string{"--listen"}, Name: "service", Logs: t.TempDir(), Restart: true,
	})
	require.NoError(t, err)
	require.NoError(t, service.Start(t.Context()))
	defer service.Wait()
	defer func() { require.NoError(t, service.End(syscall.SIGTERM)) }()
	require.Eventually(t, func() bool { return len(service.Crashes()) > 0 }, time.Minute, time.Millisecond)

	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorContains(t, service.Await(ended, "/readyz"), "service exited: unknown flag")
}
