package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// expectedFailures are the tests of the conformance suite that the service fails, by what their names begin with, with
// the reason.
var expectedFailures = map[string]string{
	"Fork - ": "forks aren't served",
}

// TestDurableStreams runs the conformance suite of the Durable Streams protocol.
func TestDurableStreams(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, args ...string) string {
		t.Helper()
		return startProgram(t, regexp.MustCompile(`msg="tidemark is ready" url=(\S+)`), setting(t, "TIDEMARK_TEST_BINARY"),
			append([]string{"serve", "--listen", "127.0.0.1:0", "--grpc-listen", "off", "--admin-listen", "off",
				"--max-wait", "2s", "--cors-origins", "*"}, args...)...)
	}
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		conforms(t, serve(t, "--data-dir", t.TempDir()))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		conforms(t, serve(t, "--redis", startCluster(t)))
	})
	t.Run("two servers in turns", func(t *testing.T) {
		t.Parallel()
		redis := "redis://" + startRedis(t)
		conforms(t, inTurns(t, serve(t, "--redis", redis), serve(t, "--redis", redis)))
	})
}

// conforms runs the suite, and compares what fails with expectedFailures.
func conforms(t *testing.T, service string) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.CommandContext(t.Context(), "npx", "vitest", "run", "--reporter=json", "--outputFile="+report)
	cmd.Dir, cmd.Env = "durable", append(os.Environ(), "TIDEMARK_TEST_URL="+service)
	output, failed := cmd.CombinedOutput() // it fails if a test does
	text, err := os.ReadFile(report)
	require.NoError(t, err, "%v: %s", failed, output)
	var results struct {
		Files []struct {
			Tests []struct {
				Name     string   `json:"fullName"`
				Status   string   `json:"status"`
				Messages []string `json:"failureMessages"`
			} `json:"assertionResults"`
		} `json:"testResults"`
	}
	require.NoError(t, json.Unmarshal(text, &results))
	passed, expected := 0, 0
	for _, file := range results.Files {
		for _, test := range file.Tests {
			switch {
			case test.Status == "passed":
				passed++
			case test.Status != "failed": // those of subscriptions
			case isExpected(test.Name):
				expected++
			default:
				t.Errorf("%s: %.500s", test.Name, strings.Join(test.Messages, "; "))
			}
		}
	}
	t.Logf("%d tests of the protocol passed, %d failed as expected", passed, expected)
	require.Greater(t, passed, 250)
}

func isExpected(name string) bool {
	for prefix := range expectedFailures {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// inTurns returns the URL of a proxy that sends each request to the next server.
func inTurns(t *testing.T, servers ...string) string {
	t.Helper()
	var turn atomic.Int64
	targets := make([]*url.URL, len(servers))
	for i, server := range servers {
		target, err := url.Parse(server)
		require.NoError(t, err)
		targets[i] = target
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(targets[int(turn.Add(1))%len(targets)])
		r.Out.Host = r.In.Host
	}}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

// startRedis starts a Redis without persistence until the test ends, and returns its address.
func startRedis(t *testing.T, args ...string) string {
	t.Helper()
	port := strconv.Itoa(redisPort(t))
	address := net.JoinHostPort("127.0.0.1", port)
	cmd := exec.CommandContext(t.Context(), "redis-server", append([]string{"--bind", "127.0.0.1", "--port", port, "--save", "",
		"--appendonly", "no", "--dir", t.TempDir()}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGKILL) }
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // killed
	require.Eventually(t, func() bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		return err == nil && conn.Close() == nil
	}, patience, 20*time.Millisecond)
	return address
}

// redisPort returns a port on which no process listens, below those that connections get. That of a Cluster's bus, which
// is higher by 10,000, is one of them.
func redisPort(t *testing.T) int {
	t.Helper()
	for {
		port := 21_000 + rand.IntN(1_500)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			require.NoError(t, listener.Close())
			return port
		}
	}
}

// startCluster starts a Cluster of three nodes, and returns its URL.
func startCluster(t *testing.T) string {
	t.Helper()
	nodes := make([]string, 3)
	for i := range nodes {
		nodes[i] = startRedis(t, "--cluster-enabled", "yes")
	}
	args := append([]string{"--cluster", "create"}, nodes...)
	output, err := exec.CommandContext(t.Context(), "redis-cli", append(args, "--cluster-yes")...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Eventually(t, func() bool {
		host, port, err := net.SplitHostPort(nodes[0])
		if err != nil {
			return false
		}
		output, err := exec.CommandContext(t.Context(), "redis-cli", "-h", host, "-p", port, "cluster", "info").Output()
		return err == nil && strings.Contains(string(output), "cluster_state:ok")
	}, patience, 50*time.Millisecond)
	return strings.Join(nodes, ",")
}
