package grpc_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/internal/api/grpc"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// stalled begins a call on the listener of gRPC whose message doesn't arrive completely. It returns the result of the
// call.
func (h *harness) stalled(id string) (ended <-chan string) {
	h.t.Helper()
	reader, writer := io.Pipe()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, "http://"+h.address+openmatch.FrontendService_CreateTicket_FullMethodName, reader)
	require.NoError(h.t, err)
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("X-Request-Id", id)
	client, codes := servertest.Client(h.t, true), make(chan string, 1)
	go func() {
		defer close(codes)
		response, err := client.Do(request)
		if err != nil {
			return // the test has ended
		}
		_, _ = io.Copy(io.Discard, response.Body) // until the end
		_ = response.Body.Close()
		codes <- response.Header.Get("Grpc-Status") + response.Trailer.Get("Grpc-Status")
	}()
	_, err = writer.Write(envelope(0, maxBodyBytes, []byte("a part")))
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = writer.Close() })
	return codes
}

// TestSlowMessages checks that slow messages are refused after a time, and the oldest of too many slow ones. Other
// calls continue.
func TestSlowMessages(t *testing.T) {
	t.Parallel()
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		h := start(t, func(s *grpc.Services) { grpc.LimitArrivals(s, 100*time.Millisecond, 20*time.Millisecond, 10) })
		require.Equal(t, "4", <-h.stalled("slow"))
		require.Equal(t, "408", h.logs.Request(t, "slow").Attributes["status"])
		h.newID(h.frontend(servertest.Native))
	})
	t.Run("too many", func(t *testing.T) {
		t.Parallel()
		h := start(t, func(s *grpc.Services) { grpc.LimitArrivals(s, time.Hour, 20*time.Millisecond, 2) })
		first, second, third := h.stalled("first"), h.stalled("second"), h.stalled("third")
		select { // the one that has arrived first
		case code := <-first:
			require.Equal(t, "4", code)
		case code := <-second:
			require.Equal(t, "4", code)
		case code := <-third:
			require.Equal(t, "4", code)
		}
		w := h.watch(h.frontend(servertest.Native), h.newID(h.frontend(servertest.Native)))
		h.awaitWaiting(1)
		<-time.After(200 * time.Millisecond) // a call whose message has arrived may continue
		h.drain()
		isError(t, w.ends(t), codes.Unavailable, "the server is shutting down")
	})
}

// TestUnreadAnswers: a query with an unread answer ends, so that others are served.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	const soon = 200 * time.Millisecond
	for _, limits := range [][2]time.Duration{{soon, time.Hour}, {time.Hour, soon}} {
		h := start(t, func(s *grpc.Services) { grpc.LimitQueries(s, limits[0], limits[1]) })
		h.addTickets("large", 600, 16<<10) // several messages: one is never waited for
		h.requireUnreadEnd(t)
	}
}

// requireUnreadEnd leaves a client's maximum number of queries unread, until others are answered.
func (h *harness) requireUnreadEnd(t *testing.T) {
	t.Helper()
	for _, p := range []servertest.Protocol{servertest.Native, servertest.GRPCGo} {
		const queries, onConnection = 12, 4
		entered := make(chan struct{}, queries)
		h.matches.set(func() { h.matches.walking = func() { entered <- struct{}{} } })
		var client openmatch.QueryServiceClient
		for i := range queries {
			if i%onConnection == 0 {
				client = openmatch.NewQueryServiceClient(h.dial(p))
			}
			_, err := client.QueryTickets(h.inQueue("large"), &openmatch.QueryTicketsRequest{Pool: &openmatch.Pool{}})
			require.NoError(t, err)
			<-entered
		}
		h.matches.set(func() { h.matches.walking = nil })
		require.Eventually(t, func() bool {
			stream, err := h.query().QueryTicketIds(h.inQueue("q"), &openmatch.QueryTicketIdsRequest{Pool: &openmatch.Pool{}})
			require.NoError(t, err)
			_, err = stream.Recv()
			return errors.Is(err, io.EOF)
		}, servertest.Patience, 10*servertest.Step)
	}
}

// TestUnreadErrors: a client that doesn't read the answers to large messages that can't be decoded doesn't keep others
// from having theirs decoded.
func TestUnreadErrors(t *testing.T) {
	t.Parallel()
	h := start(t)
	c, err := load.DialFlood(t.Context(), strings.TrimPrefix(h.url, "http://"), true)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.CloseWindow())
	const path = "/v1/frontendservice/tickets"
	text := strings.Repeat(" ", 70<<10)
	for range 5 { // by the second time all of the first were decoded
		require.NoError(t, c.Posts(path, []byte(`{"ticket":`+text), (runtime.GOMAXPROCS(0)+1)/2))
		h.answers(http.StatusOK, "POST", path, `{"ticket":{}`+text+`}`)
	}
}

// TestUnreadTickets: a client that doesn't read large tickets is refused them, over all connections. The memory is
// returned when the calls end, and when the connection does.
func TestUnreadTickets(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for _, encoding := range []string{encoding.Identity, "gzip"} {
		h := start(t)
		h.addTickets("large", 1, size)
		h.addTickets("small", 1, 10)
		for _, abandon := range []func(cancel func(), conn *grpcgo.ClientConn){
			func(cancel func(), _ *grpcgo.ClientConn) { cancel() },
			func(_ func(), conn *grpcgo.ClientConn) { require.NoError(t, conn.Close()) },
		} {
			conn, err := grpcgo.NewClient("passthrough:///"+h.address, grpcgo.WithStaticStreamWindowSize(64<<10),
				grpcgo.WithTransportCredentials(insecure.NewCredentials()))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			f := h.frontend(servertest.Native)
			for unread := 0; err == nil; unread++ { // until a call is refused
				require.Less(t, unread, 16, "a client can leave as much unread as it likes")
				stream, errStream := conn.NewStream(ctx, &grpcgo.StreamDesc{ServerStreams: true},
					openmatch.FrontendService_GetTicket_FullMethodName, grpcgo.UseCompressor(encoding))
				require.NoError(t, errStream)
				require.NoError(t, stream.SendMsg(&openmatch.GetTicketRequest{TicketId: "large0"}))
				require.NoError(t, stream.CloseSend())
				_, err = stream.Header() // the answer has begun
				require.NoError(t, err)
				_, err = h.get(f, "large0")
			}
			require.Equal(t, codes.ResourceExhausted, status.Code(err))
			require.ErrorContains(t, err, "this client has not read")
			require.Greater(t, h.router.Answers().Bytes(), int64(8*size))
			require.LessOrEqual(t, h.router.Answers().Bytes(), int64(16*size))
			_, err = f.CreateTicket(t.Context(), &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
			require.Equal(t, codes.ResourceExhausted, status.Code(err))
			h.matches.set(func() { require.Len(t, h.matches.tickets, 2, "it is refused before it makes a ticket") })
			abandon(cancel, conn)
			require.Eventually(t, func() bool { return h.router.Answers().Bytes() == 0 }, servertest.Patience, servertest.Step)
			_, err = h.get(f, "large0")
			require.NoError(t, err)
			cancel()
			_ = conn.Close() // it may be closed
		}
	}
}

// TestResetTickets: the memory of large answers is returned, whenever their calls are reset, while the connection goes
// on.
func TestResetTickets(t *testing.T) {
	t.Parallel()
	const size, calls, clients = 8 << 10, 2_000, 8
	h := start(t)
	h.addTickets("large", 1, size)
	f := h.frontend(servertest.Native)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for i := range calls / clients {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*clients+client)*time.Microsecond)
				_, _ = f.GetTicket(ctx, &openmatch.GetTicketRequest{TicketId: "large0"}) // it may be answered before its end
				cancel()
			}
		})
	}
	all.Wait()
	require.Eventually(t, func() bool { return h.router.Answers().Bytes() == 0 }, servertest.Patience, servertest.Step)
	_, err := h.get(f, "large0")
	require.NoError(t, err)
}

// TestRefusedAnswersOverHTTP: a large answer for which there is no memory is refused and not cut off.
func TestRefusedAnswersOverHTTP(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.addTickets("large", 1, 1<<20)
	others := h.router.Answers().Part(func() string { return "another" })
	require.NoError(t, others.Grow(web.DefaultAnswerMemory))
	for _, p := range servertest.Protocols {
		_, err := h.get(h.frontend(p), "large0")
		isError(t, err, codes.Unavailable, "too many large answers wait for clients to read them; trying again is safe")
	}
	const path = "/v1/frontendservice/tickets/large0"
	require.InDelta(t, 14, h.answers(http.StatusServiceUnavailable, "GET", path, "")["code"], 0)
	others.Close()
	require.Equal(t, "large0", h.answers(http.StatusOK, "GET", path, "")["id"])
	require.Eventually(t, func() bool { return h.router.Answers().Bytes() == 0 }, servertest.Patience, servertest.Step)
}

// TestStreamsOfAConnection are limited: the client's library waits.
func TestStreamsOfAConnection(t *testing.T) {
	t.Parallel()
	h := start(t)
	f := h.frontend(servertest.Native)
	id := h.newID(f)
	for range maxStreams {
		h.watch(f, id)
	}
	h.awaitWaiting(maxStreams)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := f.GetTicket(ctx, &openmatch.GetTicketRequest{TicketId: id})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	_, err = h.get(h.frontend(servertest.Native), id)
	require.NoError(t, err, "another connection")
	h.drain()
}

// TestLogOfWhatTheClientEnds: the client's deadline is not a failure of the service.
func TestLogOfWhatTheClientEnds(t *testing.T) {
	t.Parallel()
	h := start(t)
	for id, p := range map[string]servertest.Protocol{"native": servertest.Native, "http": servertest.GRPCGo} {
		f := h.frontend(p)
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "x-request-id", id), time.Second)
		defer cancel()
		w := h.watchIn(ctx, f, h.newID(f))
		h.awaitWaiting(1)
		require.Equal(t, codes.DeadlineExceeded, status.Code(w.ends(t)))
		logged := h.logs.Request(t, id)
		require.Equal(t, "499", logged.Attributes["status"])
		require.Equal(t, slog.LevelDebug, logged.Level)
	}
}
