package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// unfinished opens n sockets, sends text on each, and waits until each holds memory for a frame, of size bytes, or has
// been closed.
func unfinished(t *testing.T, h *servertest.Harness, n int, text string, size int64) {
	t.Helper()
	var closed atomic.Int64
	for range n {
		conn := h.Connect(text)
		go func() {
			_, _ = io.Copy(io.Discard, conn) // until the server or the test ends it
			closed.Add(1)
		}()
	}
	require.Eventually(t, func() bool { return closed.Load()+h.BodyBytes()/size == int64(n) }, servertest.Patience,
		servertest.Step)
}

// TestUnfinishedFrames: a client that announces many large frames and doesn't finish them has its share of the memory,
// and others publish.
func TestUnfinishedFrames(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p), func(s *servertest.Setup) {
		s.Limits.MaxBodyBytes, s.Limits.BodyMemory = size, 16*size
	})
	frame := "\x81\xff\x00\x00\x00\x00\x00\x0f\x00\x00\x00\x00\x00\x00" + strings.Repeat(" ", size/2+1)
	unfinished(t, h, 20, handshakeOf("Authorization: "+limited(t, &p, "off").Value+"\r\n"+offered)+frame, size)
	require.LessOrEqual(t, h.BodyBytes(), int64(4*size))
	content := `{"content":1` + strings.Repeat(" ", 3000) + `}`
	h.Do("POST", "/v1/channels/c/messages", content, limited(t, &p, "off")).With(http.StatusCreated)
}

// TestUnfinishedCredentials: clients without a credential have little memory together for the frames that have it.
func TestUnfinishedCredentials(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p), func(s *servertest.Setup) {
		s.Limits.MaxBodyBytes, s.Limits.BodyMemory = 1<<20, 1<<20
		s.Limits.SocketPatience = time.Hour
	})
	frame := "\x81\xfe\x24\x00\x00\x00\x00\x00" + strings.Repeat(" ", 8<<10+1)
	unfinished(t, h, 150, handshakeOf(offered)+frame, 16<<10)
	require.LessOrEqual(t, h.BodyBytes(), int64(1<<20/16))
	content := `{"content":1` + strings.Repeat(" ", 3000) + `}`
	h.Do("POST", "/v1/channels/c/messages", content, limited(t, &p, "off")).With(http.StatusCreated)
}

// TestSocketsWithoutCredential: an address may have some, and others open theirs. One that gets a credential isn't
// counted any more.
func TestSocketsWithoutCredential(t *testing.T) {
	t.Parallel()
	const maxSockets = 256
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p), func(s *servertest.Setup) {
		s.Limits.SocketPatience = time.Hour
	})
	good := limited(t, &p, "off")
	first := h.Dial()
	var last net.Conn
	for range maxSockets - 1 {
		last = h.Connect(handshakeOf(offered))
		require.Equal(t, http.StatusSwitchingProtocols, servertest.StatusOn(t, last))
	}
	refused := func() bool {
		conn := h.Connect(handshakeOf(offered))
		return servertest.StatusOn(t, conn) == http.StatusTooManyRequests
	}
	require.True(t, refused())
	h.Dial(good).Request(ping, "pong")
	require.Equal(t, http.StatusSwitchingProtocols, servertest.StatusOn(t, h.ConnectFrom(2, handshakeOf(offered))))
	first.Request(`{"type":"authenticate","ref":7,"token":"`+strings.TrimPrefix(good.Value, "Bearer ")+`"}`, "ok")
	require.False(t, refused(), "the first one has a credential")
	require.True(t, refused())
	require.NoError(t, last.Close())
	require.Eventually(t, func() bool { return !refused() }, servertest.Patience, servertest.Step)
}

// TestSocketIsAWait of its client, as a fetch that waits is, and as a stream is.
func TestSocketIsAWait(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	ann, bob := limited(t, &p, "waits=3"), limited(t, &p, "waits=3")
	h.Do("PUT", servertest.At, "", ann).With(http.StatusCreated)
	authenticate := `{"type":"authenticate","ref":7,"token":"` + strings.TrimPrefix(ann.Value, "Bearer ") + `"}`
	first, second, third := h.Dial(ann), h.Dial(ann), h.Dial()
	third.Request(authenticate, "ok")
	third.Request(authenticate, "ok") // the same credential again takes nothing
	h.Do("GET", "/v1/socket", "", ann, servertest.Header{Name: "Sec-WebSocket-Protocol", Value: "tidemark.v1"}).
		Problem(http.StatusTooManyRequests, fault.SlugTooManyWaits)
	h.Do("GET", servertest.At+"/stream", "", ann).Problem(http.StatusTooManyRequests, fault.SlugTooManyWaits)
	other := h.Dial()
	other.Send(authenticate)
	other.Fails(7, fault.SlugTooManyWaits)
	for n := range 8 {
		second.Send(fmt.Sprintf(`{"type":"subscribe","ref":1,"channel":"c%d","subscriber":"s"}`, n))
		second.Fails(1, fault.SlugNoSubscriber)
	}
	h.Dial(bob).Request(ping, "pong")
	require.NoError(t, first.Conn.Close(websocket.StatusNormalClosure, ""))
	require.Eventually(t, func() bool {
		other.Send(authenticate)
		return other.Receive().Type == "ok"
	}, servertest.Patience, servertest.Step)
}

// TestSocketOfRefusedFrames: frames that need a credential are refused at a low rate before there is one.
func TestSocketOfRefusedFrames(t *testing.T) {
	t.Parallel()
	const sent = 20_000
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p), func(s *servertest.Setup) {
		s.Limits.SocketPatience = 2 * time.Second
	})
	conn := h.Connect(handshakeOf(offered))
	go func() { _, _ = io.WriteString(conn, strings.Repeat("\x81"+rawFrame('x', publishC)[1:], sent)) }() // until it is closed
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(servertest.Patience)))
	answers, err := io.ReadAll(conn)
	if err != nil {
		require.ErrorContains(t, err, "reset", "there are bytes that the server hasn't read")
	}
	require.Less(t, strings.Count(string(answers), "credentials-missing"), sent/20)
	p.Add(t, "good", servertest.Everything)
	h.Dial(servertest.Bearer("good")).Request(publishC, "published")
}

// TestFetchOfManyCostsRequests: each 8 channels of a fetch count as a request.
func TestFetchOfManyCostsRequests(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "good", servertest.Everything)
	h.As("good")
	from := make([]string, 24)
	for i := range from {
		from[i] = fmt.Sprint("c", i)
		h.Subscribe(from[i], "s")
	}
	as := limited(t, &p, "requests=5/h")
	h.Do("POST", "/v1/fetch", servertest.FetchBody(from...), as).Expect(200, `{"deliveries":[],"problems":[]}`)
	h.Do("POST", "/v1/fetch", servertest.FetchBody(from...), as).Problem(http.StatusTooManyRequests, fault.SlugRateLimited)
	h.Do("POST", "/v1/fetch", servertest.FetchBody(from[:8]...), as).With(200)
}

// TestQueriesCostRequests: each 100 tickets that a query goes through count as a request.
func TestQueriesCostRequests(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.WithQueues("held", `{"director":"user"}`), servertest.Closed(t, &p))
	all, as := limited(t, &p, "off"), limited(t, &p, "requests=3/h")
	for range 150 {
		h.Do("POST", "/v1/tickets", `{"queue":"held"}`, all).With(http.StatusCreated)
	}
	h.Do("POST", "/v1/queryservice/tickets:query", `{"pool":{"name":"x"}}`, as,
		servertest.Header{Name: "Tidemark-Queue", Value: "held"}).With(http.StatusOK)
	h.Do("GET", "/v1/info", "", as).With(http.StatusOK)
	h.Do("GET", "/v1/info", "", as).Problem(http.StatusTooManyRequests, fault.SlugRateLimited)
}
