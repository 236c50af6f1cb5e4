package e2e

import (
	"context"
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
		conforms(t, serve(t, "--redis", addresses(startCluster(t, 0))))
	})
	t.Run("two servers in turns", func(t *testing.T) {
		t.Parallel()
		redis := "redis://" + startRedis(t).address
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

// redis is a Redis server of a test.
type redis struct {
	address string
	args    []string
	end     func()
}

// newRedis returns a Redis without persistence, unless further arguments set it up, that isn't started yet.
func newRedis(t *testing.T, args ...string) *redis {
	t.Helper()
	port := strconv.Itoa(redisPort(t))
	return &redis{address: net.JoinHostPort("127.0.0.1", port), args: append([]string{"--bind", "127.0.0.1", "--port", port,
		"--save", "", "--appendonly", "no", "--dir", t.TempDir()}, args...)}
}

// startRedis starts a Redis until the test ends, and returns it.
func startRedis(t *testing.T, args ...string) *redis {
	t.Helper()
	r := newRedis(t, args...)
	r.start(t)
	return r
}

// start starts the server, for the first time or after kill, and returns when it answers.
func (r *redis) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "redis-server", r.args...) // SIGKILL ends it
	require.NoError(t, cmd.Start())
	r.end = func() {
		cancel()
		_ = cmd.Wait() // killed
	}
	t.Cleanup(r.end)
	require.Eventually(t, func() bool {
		output, err := r.command(t, "ping").Output()
		return err == nil && strings.HasPrefix(string(output), "PONG")
	}, patience, 20*time.Millisecond)
}

// kill ends the server by SIGKILL.
func (r *redis) kill() { r.end() }

// command returns a command for redis-cli, which prints errors of Redis as it prints values.
func (r *redis) command(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	host, port, err := net.SplitHostPort(r.address)
	require.NoError(t, err)
	return exec.CommandContext(t.Context(), "redis-cli", append([]string{"-h", host, "-p", port}, words...)...)
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

// startCluster starts a Cluster of three primaries with some replicas each, and returns its nodes.
func startCluster(t *testing.T, replicas int) []*redis {
	t.Helper()
	nodes := make([]*redis, 3*(1+replicas))
	args := []string{"--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes", "--cluster", "create"}
	for i := range nodes {
		nodes[i] = startRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		args = append(args, nodes[i].address)
	}
	output, err := exec.CommandContext(t.Context(), "redis-cli", args...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	for _, node := range nodes {
		require.Eventually(t, func() bool {
			state, err := node.command(t, "cluster", "info").Output()
			return err == nil && strings.Contains(string(state), "cluster_state:ok")
		}, patience, 50*time.Millisecond)
	}
	return nodes
}

// addresses returns the addresses of nodes, as the option --redis has them.
func addresses(nodes []*redis) string {
	all := make([]string, len(nodes))
	for i, node := range nodes {
		all[i] = node.address
	}
	return strings.Join(all, ",")
}
