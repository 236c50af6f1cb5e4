package streams_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/api/streams"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// fed is a stream of what a test sends.
type fed struct {
	ready    func()
	arrivals chan []channel.Arrival
	closed   chan struct{}
	panics   atomic.Bool
}

func newFed() *fed {
	return &fed{arrivals: make(chan []channel.Arrival, 16), closed: make(chan struct{})}
}

func (f *fed) OpenStream(_ context.Context, q channel.StreamQuery) (streams.Stream, error) {
	f.ready = q.Ready
	return f, nil
}

// send lets a message arrive.
func (f *fed) send(id string, content []byte) {
	f.arrivals <- []channel.Arrival{{Message: &channel.Message{ID: id, Clock: 1, Content: content}, Receipt: "r"}}
	f.ready()
}

func (f *fed) Take() (arrivals []channel.Arrival, again time.Time, done bool) {
	if f.panics.Load() {
		panic("take")
	}
	select {
	case arrivals = <-f.arrivals:
	default:
	}
	return arrivals, time.Now().Add(time.Hour), len(f.arrivals) == 0
}

func (f *fed) Next(context.Context, time.Duration) ([]channel.Arrival, error) {
	arrivals, _, _ := f.Take()
	return arrivals, nil
}

func (*fed) Began() string  { return "" }
func (*fed) Ended() bool    { return false }
func (*fed) CaughtUp() bool { return true }
func (*fed) Token() string  { return "" }
func (f *fed) Close()       { close(f.closed) }

// pipeConn is a connection that never has room for a write without waiting.
type pipeConn struct{ net.Conn }

func (c pipeConn) Detach() net.Conn                    { return c }
func (pipeConn) SyscallConn() (syscall.RawConn, error) { return noRoom{}, nil }

type noRoom struct{}

func (noRoom) Control(func(uintptr)) error    { return nil }
func (noRoom) Read(func(uintptr) bool) error  { return nil }
func (noRoom) Write(func(uintptr) bool) error { return nil }

// hijackable is the writer of an answer whose connection can be taken.
type hijackable struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// onDirect serves a stream on a connection that is taken from net/http, in a bubble.
func onDirect(t *testing.T, test func(t *testing.T, f *fed, client net.Conn, r *prometheus.Registry, router *web.Router)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFed()
		registry := prometheus.NewRegistry()
		router := web.New(web.Options{Logger: slog.New(slog.DiscardHandler), Metrics: registry, MaxBodyBytes: 1 << 20,
			BodyMemory: 1 << 20, ReadTimeout: time.Minute})
		streams.Register(router, streams.Options{Streams: f, Metrics: registry, Age: time.Hour})
		client, server := net.Pipe()
		ctx := web.WithDetacher(t.Context(), pipeConn{server})
		router.ServeHTTP(hijackable{httptest.NewRecorder(), server}, httptest.NewRequestWithContext(ctx, http.MethodGet,
			"http://localhost/v1/channels/c/subscribers/s/stream", http.NoBody))
		test(t, f, client, registry, router)
		require.NoError(t, router.WaitDetached(t.Context()))
		<-f.closed
		require.Zero(t, valueOf(t, registry, "tidemark_streams"))
		require.Zero(t, router.Answers().Bytes())
	})
}

// answerOf reads the head of the answer.
func answerOf(t *testing.T, client net.Conn) *http.Response {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(client), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	require.True(t, answer.Close)
	require.Equal(t, []string{"chunked"}, answer.TransferEncoding)
	return answer
}

// TestDirectStream: a stream whose connection was taken from net/http has the events in their order, a ping when nothing
// has come for a while, and an end that is no cut.
func TestDirectStream(t *testing.T) {
	t.Parallel()
	onDirect(t, func(t *testing.T, f *fed, client net.Conn, r *prometheus.Registry, _ *web.Router) {
		answer := answerOf(t, client)
		f.send("a", []byte("{\n}"))
		f.send("b", []byte("2"))
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Regexp(t, `^retry: \d+\n: ping\n`+
			`id: r\nevent: message\ndata: \{"id":"a","clock":1,"content":\{ \}\}\n\n`+
			`id: r\nevent: message\ndata: \{"id":"b","clock":1,"content":2\}\n\n`+
			`(: ping\n){180,240}event: end\ndata: \{"reason":"age"\}\n\n$`, string(body))
		require.EqualValues(t, 2, valueOf(t, r, "tidemark_stream_messages_total"))
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}

// A client that doesn't read in time is cut off and counted.
func TestDirectStreamOfASlowClient(t *testing.T) {
	t.Parallel()
	onDirect(t, func(t *testing.T, f *fed, client net.Conn, r *prometheus.Registry, router *web.Router) {
		answerOf(t, client)
		f.send("a", make([]byte, 64<<10))
		began := time.Now()
		synctest.Wait()
		require.Greater(t, router.Answers().Bytes(), int64(64<<10))
		<-f.closed
		require.Equal(t, 27*time.Second, time.Since(began).Round(time.Second), "25 s, and a second for each 32 KiB")
		require.EqualValues(t, 1, valueOf(t, r, "tidemark_streams_cut_total"))
	})
}

// A stream ends at once when its client has gone, when it panics, and when the service can't wait any longer.
func TestDirectStreamEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*fed, net.Conn, *web.Router){
		"the client has gone": func(_ *fed, client net.Conn, _ *web.Router) { _ = client.Close() },
		"a panic": func(f *fed, _ net.Conn, _ *web.Router) {
			f.panics.Store(true)
			f.ready()
		},
		"the service ends while the client doesn't read": func(f *fed, _ net.Conn, router *web.Router) {
			f.send("a", []byte("1"))
			synctest.Wait()
			over, cancel := context.WithCancel(context.Background())
			cancel()
			_ = router.WaitDetached(over)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onDirect(t, func(t *testing.T, f *fed, client net.Conn, r *prometheus.Registry, router *web.Router) {
				answerOf(t, client)
				began := time.Now()
				end(f, client, router)
				<-f.closed
				require.Zero(t, time.Since(began))
				require.Zero(t, valueOf(t, r, "tidemark_streams_cut_total"))
			})
		})
	}
}

// TestSchedulerRunsEachTask: streams that are busy at the same time all get what is theirs.
func TestSchedulerRunsEachTask(t *testing.T) {
	t.Parallel()
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			onDirect(t, func(t *testing.T, f *fed, client net.Conn, _ *prometheus.Registry, _ *web.Router) {
				answer := answerOf(t, client)
				go func() {
					for range 20 {
						f.send("a", []byte("1"))
					}
				}()
				lines, events := bufio.NewScanner(answer.Body), 0
				for events < 20 && lines.Scan() {
					if lines.Text() == "event: message" {
						events++
					}
				}
				require.Equal(t, 20, events)
				_ = client.Close()
			})
		})
	}
	clients.Wait()
}
