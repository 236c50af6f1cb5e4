package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDurableStreamsClient lets the protocol's own client write and read a stream while what serves it is killed: every
// append that was acknowledged is read once, in order, to the end of the stream.
func TestDurableStreamsClient(t *testing.T) {
	t.Parallel()
	t.Run("the service is killed", func(t *testing.T) {
		t.Parallel()
		redis := startRedis(t)
		address := freeAddress(t)
		kill := startStreams(t, address, "--redis", "redis://"+redis.address)
		relay(t, address, func() {
			kill()
			startStreams(t, address, "--redis", "redis://"+redis.address)
		})
	})
	t.Run("Redis is killed", func(t *testing.T) {
		t.Parallel()
		redis := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
		address := freeAddress(t)
		startStreams(t, address, "--redis", "redis://"+redis.address)
		relay(t, address, func() {
			redis.kill()
			redis.start(t)
		})
	})
	t.Run("a Cluster fails over", func(t *testing.T) {
		t.Parallel()
		nodes := startCluster(t, 1)
		config := filepath.Join(t.TempDir(), "tidemark.yaml")
		require.NoError(t, os.WriteFile(config, []byte("channels:\n  - {pattern: '.*', replicas: 1}\n"), 0o600))
		address := freeAddress(t)
		startStreams(t, address, "--config", config, "--redis", addresses(nodes))
		relay(t, address, func() {
			primary := owner(t, nodes)
			require.NotNil(t, primary)
			primary.kill()
			require.Eventually(t, func() bool { return owner(t, nodes) != nil }, patience, 50*time.Millisecond)
			primary.start(t) // as the replica, which confirms publishes
		})
	})
}

// owner returns the node of a Cluster that serves the stream, or nil while none does. Others answer by an error.
func owner(t *testing.T, nodes []*redis) *redis {
	t.Helper()
	for _, node := range nodes {
		output, err := node.command(t, "get", "{"+relayed+"}").Output()
		if err == nil && strings.TrimSpace(string(output)) == "" {
			return node
		}
	}
	return nil
}

// startStreams starts a service at an address, and returns what kills it.
func startStreams(t *testing.T, address string, args ...string) (kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), setting(t, "TIDEMARK_TEST_BINARY"), append([]string{"serve", "--listen", address,
		"--grpc-listen", "off", "--admin-listen", "off"}, args...)...)
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines, ready, ended := bufio.NewScanner(log), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for pattern, began := regexp.MustCompile(`msg="tidemark is ready"`), false; lines.Scan(); {
			t.Log(lines.Text())
			if !began && pattern.MatchString(lines.Text()) {
				began = true
				close(ready)
			}
		}
		_ = cmd.Wait() // killed
	}()
	kill = func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	}
	t.Cleanup(kill)
	select {
	case <-ready:
	case <-ended:
		require.FailNow(t, "the service ended before it was ready")
	}
	return kill
}

// relayed is the path of the stream.
const relayed = "relay"

// relayEvent is an event of relay.mjs. Only the last one has readers.
type relayEvent struct {
	Acknowledged, Appended, Retries int
	Readers                         []struct {
		Live            string
		Got             []int
		Resumed, Anewed int
	}
}

// relay runs relay.mjs, does harm once some appends were acknowledged, and checks what was read.
func relay(t *testing.T, address string, harm func()) {
	t.Helper()
	const some = 300
	cmd := exec.CommandContext(t.Context(), "node", "relay.mjs", "http://"+address+"/v1/stream/"+relayed)
	cmd.Dir, cmd.Stderr = "durable", t.Output()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	events := json.NewDecoder(out)
	await := func(enough func(*relayEvent) bool) (event relayEvent) {
		for {
			require.NoError(t, events.Decode(&event), "the client ended")
			if enough(&event) {
				return event
			}
		}
	}
	before := await(func(e *relayEvent) bool { return e.Acknowledged >= some }).Acknowledged
	harm()
	await(func(e *relayEvent) bool { return e.Acknowledged >= before+some })
	require.NoError(t, in.Close())
	end := await(func(e *relayEvent) bool { return e.Readers != nil })
	require.NoError(t, cmd.Wait())
	t.Logf("%d appends, of which %d were tried again", end.Appended, end.Retries)
	require.Equal(t, end.Appended, end.Acknowledged)
	require.Len(t, end.Readers, 2)
	for _, reader := range end.Readers {
		t.Logf("%s: %d appends, %d connections were lost, and the offset %d times", reader.Live, len(reader.Got),
			reader.Resumed, reader.Anewed)
		for i, n := range reader.Got {
			require.Equal(t, i, n, "read by %s", reader.Live)
		}
		require.Len(t, reader.Got, end.Appended, "read by %s", reader.Live)
	}
}
