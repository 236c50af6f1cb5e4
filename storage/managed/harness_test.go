package managed

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

// If these are set, the test binary runs as a service that can be killed.
const (
	serviceDir     = "TIDEMARK_TEST_MANAGED_DIR"
	serviceAbandon = "TIDEMARK_TEST_MANAGED_ABANDON" // the child isn't ended with the service
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serviceDir); dir != "" {
		playService(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// playService prints "ready" once the child answers, and runs until it is killed.
func playService(dir string) {
	s, err := Open(Options{DataDir: dir})
	if err != nil {
		say("open:", err)
		os.Exit(1)
	}
	if os.Getenv(serviceAbandon) != "" {
		s.attributes = &syscall.SysProcAttr{Setpgid: true}
	}
	go func() {
		if err := s.Ready(context.Background()); err == nil {
			say("ready")
		}
	}()
	say("run:", s.Run(context.Background()))
}

func say(what ...any) { _, _ = fmt.Fprintln(os.Stdout, what...) }

// startService runs playService in a process of its own and returns it when its
// Redis answers.
func startService(t *testing.T, dir string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	t.Cleanup(func() { endAbandoned(t, cmd, dir) })
	cmd.Env = append(os.Environ(), serviceDir+"="+dir)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", said)
	return cmd
}

// endAbandoned ends the processes of a failed test.
func endAbandoned(t *testing.T, service *exec.Cmd, dir string) {
	t.Helper()
	_ = service.Wait() // its context has ended
	f := openPIDFile(t, dir)
	if pid := readPID(f); tryLock(f) != nil && pid != 0 {
		require.NoError(t, killGroup(pid))
	}
}

// kill ends the service with SIGKILL.
func kill(t *testing.T, service *exec.Cmd) {
	t.Helper()
	require.NoError(t, service.Process.Kill())
	require.Error(t, service.Wait())
}

// running is a Server whose Run hasn't returned.
type running struct {
	*Server
	log    *logLines
	cancel context.CancelFunc
	ended  chan error
}

// start opens and runs a server, and stops it when the test ends, if it is
// still running then.
func start(t *testing.T, o Options) *running {
	t.Helper()
	lines := newLogLines()
	o.Logger = slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := Open(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Server: s, log: lines, cancel: cancel, ended: make(chan error, 1)}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		r.ended <- s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-finished
		if t.Failed() {
			t.Log(lines.String())
		}
	})
	return r
}

func startReady(t *testing.T, o Options) *running {
	t.Helper()
	r := start(t, o)
	require.NoError(t, r.Ready(t.Context()))
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	require.NoError(t, <-r.ended)
}

// client connects to the address that the service passes to its store.
func (r *running) client(t *testing.T) rueidis.Client {
	t.Helper()
	return connect(t, r.Address())
}

func connect(t *testing.T, address string) rueidis.Client {
	t.Helper()
	o, err := rueidis.ParseURL(address)
	require.NoError(t, err)
	o.DisableCache, o.ForceSingleClient, o.DisableRetry = true, true, true
	client, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func set(t *testing.T, client rueidis.Client, key, value string) {
	t.Helper()
	require.NoError(t, client.Do(t.Context(), client.B().Set().Key(key).Value(value).Build()).Error())
}

func requireKept(t *testing.T, client rueidis.Client) {
	t.Helper()
	value, err := client.Do(t.Context(), client.B().Get().Key("key").Build()).ToString()
	require.NoError(t, err)
	require.Equal(t, "kept", value)
}

// awaitWritten returns when all writes answered before are in the file, so that
// a kill of the process can't lose them. Redis may answer first while it fsyncs.
func awaitWritten(t *testing.T, client rueidis.Client) {
	t.Helper()
	for {
		info, err := redistest.Numbers(t.Context(), client, "persistence")
		require.NoError(t, err)
		require.Contains(t, info, "aof_buffer_length")
		if info["aof_buffer_length"] == 0 {
			return
		}
	}
}

// awaitRewritten returns when a Redis has written all its data to a new append-only file.
func awaitRewritten(t *testing.T, client rueidis.Client) {
	t.Helper()
	for {
		info, err := client.Do(t.Context(), client.B().Info().Section("persistence").Build()).ToString()
		require.NoError(t, err)
		require.Contains(t, info, "aof_last_bgrewrite_status:ok\r\n")
		if strings.Contains(info, "aof_rewrite_in_progress:0\r\n") &&
			strings.Contains(info, "aof_rewrite_scheduled:0\r\n") {
			return
		}
	}
}

// childPID reads the pid of the child that runs in the data directory.
func childPID(t *testing.T, dataDir string) int {
	t.Helper()
	pid := readPID(openPIDFile(t, dataDir))
	require.NotZero(t, pid)
	return pid
}

// awaitChildGone returns when no child, and no process forked by one, exists.
func awaitChildGone(t *testing.T, dataDir string) {
	t.Helper()
	f := openPIDFile(t, dataDir)
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_UN))
}

func openPIDFile(t *testing.T, dataDir string) *os.File {
	t.Helper()
	f, err := os.Open(filepath.Join(dataDir, pidName))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// shortDir returns a directory whose path is short enough for a socket, even if that of the system's temporary
// directory isn't.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "tidemark-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	dir, err = filepath.EvalSymlinks(dir) // Redis shows its directory so
	require.NoError(t, err)
	return dir
}

// longDir returns a data directory whose path is too long for a socket.
func longDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), strings.Repeat("long", 25))
}

// logLines is a log that can be waited on.
type logLines struct {
	mu    sync.Mutex
	grown *sync.Cond
	text  bytes.Buffer
}

func newLogLines() *logLines {
	l := &logLines{}
	l.grown = sync.NewCond(&l.mu)
	return l
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grown.Broadcast()
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await returns when the log holds the text that many times.
func (l *logLines) await(text string, times int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for strings.Count(l.text.String(), text) < times {
		l.grown.Wait()
	}
}
