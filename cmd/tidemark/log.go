package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/tracing"
)

const (
	logBufferBytes = 1 << 20         // size of all lines that wait to be written
	logPieceBytes  = 4 << 10         // written at a time: a pipe doesn't mix so many with those of another process
	logKeptBytes   = 64 << 10        // of memory, while no lines wait
	logFlushTime   = 2 * time.Second // for writing the last lines
)

// logBuffer is standard error of a service. A write never waits for the reader of standard error: the line is kept in
// memory until run has written it. Lines beyond the limit are lost and counted, and so are those that can't be written.
// Once writing works again, a line reports how many. Its methods may be called by several goroutines, except run.
type logBuffer struct {
	to    io.Writer
	limit int // of bytes in waiting

	mu        sync.Mutex
	changed   sync.Cond // lines wait, or the buffer is closed
	waiting   []byte    // complete lines
	closed    bool
	lost      uint64       // lines since the start
	overflown uint64       // those lost for want of memory, and not reported yet
	report    *slog.Logger // writes to reported
	reported  bytes.Buffer

	ended chan struct{} // closed when run returns
}

func newLogBuffer(to io.Writer) *logBuffer {
	b := &logBuffer{to: to, limit: logBufferBytes, ended: make(chan struct{})}
	b.changed.L = &b.mu
	b.report = slog.New(slog.NewTextHandler(&b.reported, nil))
	return b
}

// logger returns a logger of a configuration that writes to the buffer. Its level can be changed.
func (b *logBuffer) logger(c config.Config) (*slog.Logger, *slog.LevelVar) {
	b.mu.Lock()
	defer b.mu.Unlock()
	level := new(slog.LevelVar)
	level.Set(c.Log.Level)
	b.report = newLogger(&b.reported, c.Log.Format, level)
	return newLogger(b, c.Log.Format, level), level
}

// register registers the metric of the lines lost.
func (b *logBuffer) register(registry *prometheus.Registry) {
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tidemark_log_lines_lost_total", Help: "Lines of the log that standard error didn't take.",
	}, func() float64 {
		b.mu.Lock()
		defer b.mu.Unlock()
		return float64(b.lost)
	}))
}

// Write adds complete lines to those that wait, or loses them. It returns no error.
func (b *logBuffer) Write(lines []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.overflown > 0 || len(b.waiting)+len(lines) > b.limit {
		n := countLines(lines)
		b.lost += n
		b.overflown += n
		return len(lines), nil
	}
	b.waiting = append(b.waiting, lines...)
	b.changed.Signal()
	return len(lines), nil
}

// run writes lines, in the order in which they came, until the buffer is closed and empty.
func (b *logBuffer) run() {
	defer close(b.ended)
	var failed uint64 // lines that could not be written, and are not reported yet
	torn := false     // only a part of the first of them was written
	for lines := b.take(nil); lines != nil; lines = b.take(lines) {
		if failed > 0 {
			if _, err := b.to.Write(b.failure(failed, torn)); err != nil {
				failed += b.lose(lines)
				continue
			}
		}
		rest := b.write(lines)
		failed = b.lose(rest)
		torn = len(rest) < len(lines) && lines[len(lines)-len(rest)-1] != '\n'
	}
}

// take waits for lines, and returns all of them, or nil when the buffer is closed and empty. The memory of written is
// used again.
func (b *logBuffer) take(written []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.waiting) == 0 {
		if b.closed {
			return nil
		}
		b.changed.Wait()
	}
	lines := b.waiting
	if cap(written) > logKeptBytes {
		written = nil
	}
	b.waiting = written[:0]
	if b.overflown > 0 { // after these lines, and before the next
		b.waiting = append(b.waiting, b.loss(b.overflown)...)
		b.overflown = 0
	}
	return lines
}

// write writes lines in pieces, and returns those that could not be written.
func (b *logBuffer) write(lines []byte) (unwritten []byte) {
	for len(lines) > 0 {
		n := len(lines)
		if n > logPieceBytes {
			n = 1 + bytes.LastIndexByte(lines[:logPieceBytes], '\n')
			if n == 0 { // a long line
				n = 1 + bytes.IndexByte(lines, '\n')
			}
		}
		n, err := b.to.Write(lines[:n])
		lines = lines[n:]
		if err != nil {
			return lines
		}
	}
	return nil
}

// lose counts lines as lost, and returns how many they are.
func (b *logBuffer) lose(lines []byte) uint64 {
	n := countLines(lines)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost += n
	return n
}

// failure returns the line that reports lines lost to failed writes.
func (b *logBuffer) failure(lines uint64, torn bool) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := b.loss(lines)
	if torn {
		return append([]byte{'\n'}, line...)
	}
	return bytes.Clone(line)
}

// loss returns the line that reports a number of lines lost. It is valid until the next call. The lock is held.
func (b *logBuffer) loss(lines uint64) []byte {
	b.reported.Reset()
	b.report.Error("lines of the log were lost", "lines", lines)
	return b.reported.Bytes()
}

// close makes run write what waits and return. It waits for that for a limited time, since perhaps nobody reads.
func (b *logBuffer) close(within time.Duration) {
	b.mu.Lock()
	b.closed = true
	b.changed.Signal()
	b.mu.Unlock()
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case <-b.ended:
	case <-limit.C:
	}
}

func countLines(lines []byte) uint64 { return uint64(bytes.Count(lines, []byte{'\n'})) }

// runService runs a command that serves, and reports its error. Whatever it writes to standard error goes through a
// buffer, so that a reader that is slow, stopped or gone affects the log only.
func runService(cmd *cobra.Command, t cli.Terminal, serve func(*logBuffer) error) error {
	broken := make(chan os.Signal, 1) // without it, a write to a pipe without a reader would end the process
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	b := newLogBuffer(t.Stderr)
	go b.run()
	defer b.close(logFlushTime)
	t.Stderr = b
	if err := serve(b); err != nil {
		return &cli.ExitError{Status: report(cmd.Context(), t, cmd, err), Err: err}
	}
	return nil
}

func newLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(tracing.LogHandler(slog.NewJSONHandler(w, o)))
	}
	return slog.New(tracing.LogHandler(slog.NewTextHandler(w, o)))
}
