package openapi

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// startService runs `tidemark serve` with a Redis of its own until the test ends, and returns the URL of its admin
// address, where the whole API is served.
func startService(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("TIDEMARK_TEST_BINARY")
	require.NotEmpty(t, binary, "scripts/check-openapi.sh builds the service and sets TIDEMARK_TEST_BINARY")
	cmd := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--admin-listen",
		"127.0.0.1:0", "--data-dir", t.TempDir())
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(log)
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		for lines.Scan() {
			t.Log(lines.Text())
		}
		require.NoError(t, cmd.Wait())
	})
	ready := regexp.MustCompile(`msg="tidemark is ready" .* admin=(\S+)`)
	for lines.Scan() {
		if found := ready.FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
		t.Log(lines.Text())
	}
	require.FailNow(t, "the service ended before it was ready")
	return ""
}
