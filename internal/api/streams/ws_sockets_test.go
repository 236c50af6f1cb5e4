package streams_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/api/streams"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// none are channels that aren't used.
type none struct{}

func (none) Wait(context.Context) (func(), error) { return func() {}, nil }
func (none) OpenCounted(context.Context, channel.StreamQuery) (streams.Stream, error) {
	return nil, channel.ErrNoSubscriber
}
func (none) BeginPublish(_ context.Context, _ channel.PublishRequest, done func([]channel.Published, error)) func() {
	done(nil, channel.ErrNoChannel)
	return nil
}
func (none) Ack(context.Context, string, string, string) error { return channel.ErrNoSubscriber }

// dial returns the connection of a WebSocket, whose client answers nothing by itself, and the server's sockets.
func dial(t *testing.T) (net.Conn, *streams.Sockets) {
	t.Helper()
	conn, sockets, _ := dialTo(t, none{})
	return conn, sockets
}

// dialTo is dial for channels. It returns the memory of answers, too.
func dialTo(t *testing.T, channels streams.SocketChannels) (net.Conn, *streams.Sockets, *unsent.Budget) {
	t.Helper()
	registry := prometheus.NewRegistry()
	router := web.New(web.Options{Logger: slog.New(slog.DiscardHandler), Metrics: registry, MaxBodyBytes: 1 << 20,
		BodyMemory: 1 << 20, AnswerMemory: 1 << 30, ReadTimeout: time.Minute})
	sockets := streams.RegisterSockets(router, streams.SocketOptions{Channels: channels,
		Logger: slog.New(slog.DiscardHandler), Metrics: registry})
	t.Cleanup(func() { require.NoError(t, sockets.Wait(context.WithoutCancel(t.Context()))) })
	address := strings.TrimPrefix(servertest.Serve(t, router, time.Minute), "http://")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = io.WriteString(conn, "GET /v1/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"+
		"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"+
		"Sec-WebSocket-Protocol: "+wire.SocketProtocol+"\r\n\r\n")
	require.NoError(t, err)
	head := make([]byte, 0, 512)
	for !strings.HasSuffix(string(head), "\r\n\r\n") {
		head = append(head, 0)
		_, err := conn.Read(head[len(head)-1:])
		require.NoError(t, err)
	}
	require.Contains(t, string(head), " 101 ")
	return conn, sockets, router.Answers()
}

// backlogged are channels with one large message each. That of "c0" is sent first.
type backlogged struct {
	none
	first chan struct{} // closed when those of the others are sent
}

func (b backlogged) OpenCounted(_ context.Context, q channel.StreamQuery) (streams.Stream, error) {
	if q.From[0].Channel == "c0" {
		return &backlog{size: 32 << 20}, nil
	}
	return &backlog{size: 100 << 10, after: b.first}, nil
}

// backlog is a stream of one message.
type backlog struct {
	size  int // 0: it is sent
	after chan struct{}
}

func (*backlog) Began() string  { return "" }
func (*backlog) Ended() bool    { return false }
func (*backlog) CaughtUp() bool { return false }
func (*backlog) Token() string  { return "" }
func (*backlog) Close()         {}

func (*backlog) Take() ([]channel.Arrival, time.Time, bool) { return nil, time.Time{}, false }

func (b *backlog) Next(ctx context.Context, _ time.Duration) ([]channel.Arrival, error) {
	if b.after != nil {
		<-b.after
	}
	if b.size == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	content := make([]byte, b.size)
	b.size = 0
	return []channel.Arrival{{Message: &channel.Message{ID: "a", Clock: 1, Content: content}}}, nil
}

// Contents that subscriptions have read and can't send are counted.
func TestSocketCountsWhatSubscriptionsHold(t *testing.T) {
	t.Parallel()
	channels := backlogged{first: make(chan struct{})}
	conn, _, answers := dialTo(t, channels)
	subscribe := func(n int) {
		text := fmt.Sprintf(`{"type":"subscribe","ref":1,"channel":"c%d","subscriber":"s"}`, n)
		_, err := io.WriteString(conn, "\x81"+string([]byte{byte(0x80 | len(text))})+"\x00\x00\x00\x00"+text)
		require.NoError(t, err)
	}
	const first, other = 32 << 20, 100 << 10 // the first message is more than the connection takes
	held := func() int64 {
		n := answers.Bytes()
		if n > 2*first { // as content and as frame, unless another goroutine writes the frame
			n -= first
		}
		return n
	}
	counts := func(n int64) {
		t.Helper()
		require.Eventually(t, func() bool { return held() > n }, 20*time.Second, time.Millisecond)
	}
	for n := range 8 {
		subscribe(n + 1)
	}
	for range 8 { // behind the first message, a subscription waits to answer that it is open
		head := make([]byte, 2)
		_, err := io.ReadFull(conn, head)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, conn, int64(head[1]))
		require.NoError(t, err)
	}
	subscribe(0)
	counts(first)
	before := held()
	close(channels.first)
	counts(before + 8*other - other/2) // answers, which are small, may have been written since
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return answers.Bytes() == 0 }, 20*time.Second, time.Millisecond)
}

// TestPingBeforeUnreadMessages: a ping of the protocol is answered when the client has read what was sent before.
func TestPingBeforeUnreadMessages(t *testing.T) {
	t.Parallel()
	conn, _, _ := dialTo(t, backlogged{})
	send := func(opcode byte, text string) {
		_, err := io.WriteString(conn, string([]byte{opcode, byte(0x80 | len(text))})+"\x00\x00\x00\x00"+text)
		require.NoError(t, err)
	}
	send(0x81, `{"type":"subscribe","ref":1,"channel":"c0","subscriber":"s"}`)
	receives(t, conn, "\x81\x15"+`{"type":"ok","ref":1}`)
	receives(t, conn, "\x81\x7f") // the begin of a message that is more than the connection takes
	send(0x89, "a")
	send(0x81, `{"type":"ping","ref":2}`)
	const answer = "\x81\x17" + `{"type":"pong","ref":2}`
	got := make([]byte, 0, 40<<20)
	for !strings.HasSuffix(string(got[max(0, len(got)-len(answer)):]), answer) {
		n, err := conn.Read(got[len(got):cap(got)])
		require.NoError(t, err)
		got = got[:len(got)+n]
	}
	require.True(t, strings.HasSuffix(strings.TrimSuffix(string(got), answer), "\x8a\x01a"))
}

// receives expects bytes from the server.
func receives(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

const serverPing = "\x81\x0f" + `{"type":"ping"}`

// A client that is sent nothing for a while gets a ping. One that sends nothing is pinged by the protocol, and its
// connection is closed if nothing comes back.
func TestSilentSocket(t *testing.T) {
	t.Parallel()
	conn, sockets := dial(t)
	sockets.Look(14 * time.Second)
	sockets.Look(2 * time.Second)
	receives(t, conn, serverPing)
	sockets.Look(20 * time.Second)
	receives(t, conn, "\x89\x01"+"1")
	_, err := io.WriteString(conn, "\x8a\x81\x00\x00\x00\x00"+"1"+"\x81\x97\x00\x00\x00\x00"+`{"type":"ping","ref":1}`)
	require.NoError(t, err)
	receives(t, conn, "\x81\x17"+`{"type":"pong","ref":1}`)
	sockets.Look(80 * time.Second)
	_, err = io.ReadAll(conn)
	require.NoError(t, err)
	require.NoError(t, sockets.Wait(t.Context()), "it is closed")
}

// A frame whose end doesn't come ends the socket.
func TestSocketWithHalfAFrame(t *testing.T) {
	t.Parallel()
	conn, sockets := dial(t)
	_, err := io.WriteString(conn, "\x01\x85\x00\x00\x00\x00"+`{"typ`)
	require.NoError(t, err)
	for sockets.Reading() == 0 {
		_, err := io.WriteString(conn, "\x00\x80\x00\x00\x00\x00") // it continues, by nothing
		require.NoError(t, err)
	}
	sockets.Look(9 * time.Second)
	require.Equal(t, 1, sockets.Reading())
	sockets.Look(2 * time.Second)
	receives(t, conn, "\x81\x21"+`{"type":"end","reason":"invalid"}`+"\x88\x09\x03\xf0invalid")
}

// A client that doesn't read in time is cut off.
func TestSocketOfASlowClient(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	budget, cut := unsent.New(1<<20), 0
	deadlines := &deadlined{Conn: server, passed: make(chan struct{})}
	p := streams.NewPipe(deadlines, budget.Part(func() string { return "a" }), func() { cut++ })
	p.Hold()
	_, err := p.Write(make([]byte, streams.QueueBytes))
	require.NoError(t, err)
	require.EqualValues(t, streams.QueueBytes, budget.Bytes(), "what is unread is counted")
	var waiting sync.WaitGroup
	waiting.Go(func() { require.ErrorContains(t, p.Await(), "in time", "there is no room") })
	close(deadlines.passed)
	waiting.Wait()
	p.Release()
	require.Equal(t, 1, cut)
	_, err = p.Write([]byte("x"))
	require.Error(t, err)
	require.NoError(t, p.Close())
	require.Zero(t, budget.Bytes())
}

// deadlined is a connection whose write deadline passes when the test says so.
type deadlined struct {
	net.Conn
	passed chan struct{}
}

func (d *deadlined) SetWriteDeadline(time.Time) error { return nil }

func (d *deadlined) Write([]byte) (int, error) {
	<-d.passed
	return 0, os.ErrDeadlineExceeded
}
