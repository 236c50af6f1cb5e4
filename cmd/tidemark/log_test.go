package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// heldWriter is a writer whose writes wait until they are allowed.
type heldWriter struct {
	writing  chan struct{} // gets a value for each write
	allowed  chan error    // what a write returns
	released chan struct{} // closed: writes don't wait

	mu   sync.Mutex
	text strings.Builder
}

// partly is the error of a write of which so many bytes were written.
type partly int

func (partly) Error() string { return "no space left on device" }

func newHeldWriter() *heldWriter {
	return &heldWriter{writing: make(chan struct{}, 100), allowed: make(chan error), released: make(chan struct{})}
}

func (w *heldWriter) Write(p []byte) (int, error) {
	w.writing <- struct{}{}
	var err error
	select {
	case err = <-w.allowed:
	case <-w.released:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var written partly
	switch {
	case errors.As(err, &written):
		p = p[:written]
	case err != nil:
		return 0, err
	}
	n, _ := w.text.Write(p) // never fails
	return n, err
}

func (w *heldWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// startLog starts a buffer with room for a number of bytes, and ends it with the test.
func startLog(t *testing.T, w io.Writer, limit int) (*logBuffer, *slog.Logger, *prometheus.Registry) {
	t.Helper()
	b, registry := newLogBuffer(w), prometheus.NewRegistry()
	b.limit = limit
	b.register(registry)
	go b.run()
	t.Cleanup(func() {
		if held, ok := w.(*heldWriter); ok {
			close(held.released)
		}
		b.close(scriptLimit)
		<-b.ended
	})
	log, _ := b.logger(config.Config{})
	return b, log, registry
}

// lostLines returns the value of the metric.
func lostLines(t *testing.T, registry *prometheus.Registry) int {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, "tidemark_log_lines_lost_total", families[0].GetName())
	return int(families[0].GetMetric()[0].GetCounter().GetValue())
}

// messages returns the messages of a log, with their attributes.
func messages(log string) (all []string) {
	for line := range strings.Lines(log) {
		_, message, _ := strings.Cut(strings.TrimSpace(line), " msg=")
		all = append(all, message)
	}
	return all
}

const lossMessage = `"lines of the log were lost" lines=`

// TestLogWithoutReader logs while a write to standard error waits for its reader: no logger waits, and lines beyond the
// limit are lost. When the reader reads again, it gets all others in order, and a line in place of those lost.
func TestLogWithoutReader(t *testing.T) {
	t.Parallel()
	w := newHeldWriter()
	b, log, registry := startLog(t, w, 500)
	log.Info("first")
	<-w.writing // the line is being written, and the buffer is empty
	kept := -1
	for ; lostLines(t, registry) == 0; kept++ {
		log.Info("kept")
	}
	log.Info("lost")
	log.Info("lost")
	require.Equal(t, 3, lostLines(t, registry))
	w.allowed <- nil
	<-w.writing // the lines that waited are being written
	log.Info("later")
	w.allowed <- nil
	w.allowed <- nil
	b.close(scriptLimit)
	require.Positive(t, kept)
	require.Equal(t, strings.Fields("first"+strings.Repeat(" kept", kept)), messages(w.String())[:kept+1])
	require.Equal(t, []string{lossMessage + "3", "later"}, messages(w.String())[kept+1:])
	require.Equal(t, 3, lostLines(t, registry))
}

// TestLogThatCannotBeWritten logs while writes to standard error fail: these lines are lost, and reported before the
// first one that is written.
func TestLogThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newHeldWriter()
	b, log, registry := startLog(t, w, logBufferBytes)
	for _, write := range []struct {
		message string
		results []error // of writes
	}{
		{"written", []error{nil}},
		{"lost", []error{syscall.EPIPE}},
		{"lost", []error{syscall.EPIPE}}, // of the line that reports the loss
		{"torn", []error{nil, partly(5)}},
		{"later", []error{nil, nil}},
	} {
		log.Info(write.message)
		for _, result := range write.results {
			w.allowed <- result
		}
	}
	b.close(scriptLimit)
	require.Equal(t, []string{"written", lossMessage + "2", "", lossMessage + "1", "later"}, messages(w.String()))
	require.Contains(t, w.String(), "\ntime=\n", "5 bytes of a line, and the next one on a line of its own")
	require.Equal(t, 3, lostLines(t, registry))
}

// TestLogIsComplete logs from several goroutines and closes the buffer: it has written all lines, those of a goroutine
// in order, and in pieces of whole lines.
func TestLogIsComplete(t *testing.T) {
	t.Parallel()
	const goroutines, lines = 8, 300
	w := new(pieces)
	b, log, registry := startLog(t, w, 64<<20)
	var logging sync.WaitGroup
	for g := range goroutines {
		logging.Go(func() {
			for i := range lines {
				log.Info("line", "of", g, "number", i, "more", strings.Repeat("x", i*i%9000)) // some exceed a piece
			}
		})
	}
	logging.Wait()
	log.Error("last")
	b.close(scriptLimit)
	require.Zero(t, lostLines(t, registry))
	var next [goroutines]int
	all := messages(strings.Join(*w, ""))
	require.Len(t, all, goroutines*lines+1)
	for _, message := range all[:len(all)-1] {
		var g, i int
		_, err := fmt.Sscanf(message, "line of=%d number=%d ", &g, &i)
		require.NoError(t, err, message)
		require.Equal(t, next[g], i)
		next[g]++
	}
	require.Equal(t, "last", all[len(all)-1])
	for _, piece := range *w {
		require.Regexp(t, `^time=[^\n]+\n`, piece)
		require.Equal(t, byte('\n'), piece[len(piece)-1])
		require.True(t, len(piece) <= logPieceBytes || strings.Count(piece, "\n") == 1)
	}
}

// pieces is a writer that keeps what each write wrote.
type pieces []string

func (w *pieces) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

// pipedServer is a service whose standard error is a pipe.
type pipedServer struct {
	serverProcess
	cmd    *exec.Cmd
	stderr *os.File
}

// startPiped starts a service that logs each request, and reads its log until it is ready.
func startPiped(t *testing.T, flags ...string) *pipedServer {
	t.Helper()
	program, err := exec.LookPath("tidemark")
	require.NoError(t, err)
	stderr, write, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, append([]string{"serve", "--listen=127.0.0.1:0",
		"--grpc-listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--log-level=debug"}, flags...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GORACE=" + os.Getenv("GORACE")}
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = t.TempDir(), write, processAttributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // if the test has failed
	cmd.WaitDelay = scriptLimit
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	s := &pipedServer{cmd: cmd, stderr: stderr}
	t.Cleanup(func() { _ = stderr.Close() })
	ready := s.readUntil(t, `msg="tidemark is ready" url=(\S+) .* admin=(\S+)\n`)
	s.url, s.admin = ready[1], ready[2]
	return s
}

// readUntil reads the log until it has a line that matches a pattern, and returns the submatches.
func (s *pipedServer) readUntil(t *testing.T, pattern string) []string {
	t.Helper()
	lines := bufio.NewReader(s.stderr)
	for {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, "before a line like %s", pattern)
		if match := regexp.MustCompile(pattern).FindStringSubmatch(line); match != nil {
			return match
		}
	}
}

// lose sends requests until lines of the log are lost. Each is answered.
func (s *pipedServer) lose(t *testing.T) {
	t.Helper()
	long := s.url + "/" + strings.Repeat("x", 8000)
	for s.metric(t, "tidemark_log_lines_lost_total") == 0 {
		for range 20 {
			status, _ := s.request(t, http.MethodGet, long, "")
			require.Equal(t, http.StatusNotFound, status)
		}
	}
	require.True(t, s.ready(t))
}

// finish ends the service, which must succeed.
func (s *pipedServer) finish(t *testing.T) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, s.cmd.Wait())
}

// TestStandardErrorWithoutReader leaves standard error of a service unread, and then reads again: all requests are
// answered meanwhile, and the log goes on with the number of lines lost.
func TestStandardErrorWithoutReader(t *testing.T) {
	t.Parallel()
	s := startPiped(t)
	s.lose(t)
	lost := s.readUntil(t, `level=ERROR msg="lines of the log were lost" lines=(\d+)`)
	require.NotEqual(t, "0", lost[1])
	rest := make(chan string)
	go func() {
		text, _ := io.ReadAll(s.stderr) // closed by the end of the service
		rest <- string(text)
	}()
	s.finish(t)
	require.Contains(t, <-rest, `msg=draining`)
}

// TestStopWithoutReader ends a service whose standard error nobody reads, after its Redis has ended. Probes are
// answered.
func TestStopWithoutReader(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	s := startPiped(t, "--redis", node.URL(), "--redis-timeout", "1s")
	s.lose(t)
	node.Stop(t)
	for range 3 {
		require.False(t, s.ready(t))
	}
	s.finish(t)
}

// TestStandardErrorClosed closes the pipe that is standard error of a service: it answers, counts lines as lost, and
// ends with status 0 when it is told to.
func TestStandardErrorClosed(t *testing.T) {
	t.Parallel()
	s := startPiped(t)
	require.NoError(t, s.stderr.Close())
	s.lose(t)
	s.finish(t)
}
