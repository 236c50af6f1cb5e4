package server_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

func parseLimits(t testing.TB, text string) access.Limits {
	t.Helper()
	l, err := access.ParseLimits(text)
	require.NoError(t, err)
	return l
}

// limited returns the credential of a new key that may do everything, as much as its limits allow.
func limited(t testing.TB, p *servertest.People, text string) servertest.Header {
	t.Helper()
	credential := "limited" + strconv.Itoa(len(p.Known))
	p.Add(t, credential, `[{"actions":["publish","subscribe","describe","ticket","queue"]}]`)
	p.Known[credential].Limits = parseLimits(t, text)
	return servertest.Bearer(credential)
}

// TestLimits: requests beyond a limit are refused, by each API in its form, and others are still served.
func TestLimits(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.WithQueues(), servertest.Closed(t, &p))
	for i, tt := range []struct{ limits, served, refused, still string }{
		{"requests=1/h", "GET /v1/info", "GET /v1/info", ""},
		{"requests=1/h", "PUT /channel/0/subscription/polling/s", "GET /channel/0/subscription/polling/s", ""},
		{"publishedBytes=10/h", `POST /v1/channels/2/messages {"content":12345678}`,
			`POST /v1/channels/2/messages {"content":123}`, `POST /v1/channels/2/messages {"content":1}`},
		{"publishedBytes=10/h", `PUT /v1/channels/3/messages/a 12345678`,
			`POST /v1/channels/3/messages [{"content":12},{"content":3}]`, ""},
		{"publishedBytes=10/h", `PUT /channel/4/message/a 12345678`, `PUT /channel/4/message/b 123`, ""},
		{"publishedBytes=4KiB/h", `POST /v1/channels/10/messages [{"content":1},{"content":2},{"content":3}]`,
			`POST /v1/channels/10/messages [{"content":4},{"content":5},{"content":6},{"content":7}]`,
			`POST /v1/channels/10/messages [{"content":8},{"content":9}]`},
		{"newChannels=1/h", `POST /v1/channels/5/messages {"content":1}`, `POST /v1/channels/5b/messages {"content":1}`,
			`PUT /v1/channels/5/messages/a 1`},
		{"newChannels=1/h", `PUT /channel/6/message/a 1`, `PUT /channel/6b/message/a 1`, `PUT /channel/6/message/b 1`},
		{"newChannels=1/h", `PUT /v1/channels/7/subscribers/s`, `PUT /v1/channels/7b/subscribers/s`,
			`PUT /v1/channels/7/subscribers/s2`},
		{"newSubscribers=1/h", `PUT /v1/channels/8/subscribers/s`, `PUT /v1/channels/8/subscribers/s2`,
			`PUT /v1/channels/8/subscribers/s`},
		{"newSubscribers=1/h", `PUT /channel/9/subscription/polling/s`, `PUT /channel/9b/subscription/polling/s`,
			`PUT /channel/9/subscription/polling/s`},
		{"tickets=1/h", `POST /v1/tickets {"queue":"duel"}`, `POST /v1/tickets {"queue":"duel"}`, `GET /v1/queues`},
		{"requests=1/h", `GET /v1/info`, `POST /v1/frontendservice/tickets {"ticket":{}}`, ""},
	} {
		as := limited(t, &p, tt.limits)
		do := func(call string) servertest.Answer {
			t.Helper()
			method, path, body := servertest.Cut(call)
			return h.Do(method, path, body, as)
		}
		require.Less(t, do(tt.served).Status, 300, "%d %s", i, tt.served)
		got := do(tt.refused)
		switch {
		case strings.Contains(tt.refused, " /channel/"):
			got.OldError(http.StatusTooManyRequests, "")
		case strings.Contains(tt.refused, "frontendservice"):
			require.Contains(t, string(got.Body), `"code":8`)
			require.Contains(t, string(got.Body), `"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retry_delay":`)
			require.Equal(t, http.StatusTooManyRequests, got.Status)
		default:
			got.Problem(http.StatusTooManyRequests, fault.SlugRateLimited)
		}
		seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.InDelta(t, 1800, seconds, 1800)
		if tt.still != "" {
			require.Less(t, do(tt.still).Status, 300, tt.still)
		}
	}
	p.Add(t, "admin", `[{"actions":["admin"]}]`)
	require.Contains(t, string(h.OnAdmin().Do("GET", "/metrics", "", servertest.Bearer("admin")).Body),
		`tidemark_limited_total{limit="newChannels",of="key"} 3`)
}

// TestLargeBodiesCount: a body counts as a request for each 16 KiB, before it is decoded. A client with all of its
// limit left is served, however large the body.
func TestLargeBodiesCount(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.WithQueues(), servertest.Closed(t, &p))
	const path, open = "/v1/channels/c/messages", `{"content":1`
	text := strings.Repeat(" ", 60<<10)
	as := limited(t, &p, "requests=8/h")
	h.Do("POST", path, open+text[:16<<10], as).Problem(http.StatusBadRequest, fault.SlugInvalidBody)
	h.Do("POST", path, open+text, as).Problem(http.StatusBadRequest, fault.SlugInvalidBody)
	h.Do("POST", path, open+text, as).Problem(http.StatusTooManyRequests, fault.SlugRateLimited)
	require.Equal(t, http.StatusCreated, h.Do("POST", path, open+text+`}`, limited(t, &p, "requests=3/h")).Status)
	require.Equal(t, http.StatusCreated, h.Do("POST", path, open+text+`}`, limited(t, &p, "requests=1/h")).Status)

	body := `{"ticket":{` + text + `}}`
	as = limited(t, &p, "requests=5/h")
	require.Equal(t, http.StatusCreated, h.Do("POST", path, open+text+`}`, as).Status)
	got := h.Do("POST", "/v1/frontendservice/tickets", body, as)
	require.Equal(t, http.StatusTooManyRequests, got.Status, "%s", got.Body)
}

// TestUnaffordableBodiesAreNotReceived: a body beyond the limit of its client is refused before it is sent.
func TestUnaffordableBodiesAreNotReceived(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	as := limited(t, &p, "requests=4/h")
	head := fmt.Sprintf("POST /v1/channels/c/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", as.Value, 60<<10)
	require.Equal(t, http.StatusContinue, servertest.StatusOn(t, h.Connect(head)))
	require.Equal(t, http.StatusOK, h.Do("GET", "/v1/info", "", as).Status)
	require.Equal(t, http.StatusTooManyRequests, servertest.StatusOn(t, h.Connect(head)))
	require.Equal(t, http.StatusOK, h.Do("GET", "/v1/info", "", as).Status, "the refused one cost one request")
}

// TestRefusedBodiesCountOnce: a body for which the server has no memory counts as one request, whatever its size.
func TestRefusedBodiesCountOnce(t *testing.T) {
	t.Parallel()
	const path, size = "/v1/channels/c/messages", 60 << 10
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p), func(s *servertest.Setup) {
		s.Limits.MaxBodyBytes, s.Limits.BodyMemory = size, size+1
	})
	body := `{"content":1` + strings.Repeat(" ", size-13) + `}`
	other := h.Connect(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n%s",
		path, limited(t, &p, "requests=100/h").Value, size, body[1:]))
	require.Eventually(t, func() bool { return h.BodyBytes() >= size }, servertest.Patience, servertest.Step)
	as := limited(t, &p, "requests=7/h")
	for range 3 {
		h.Do("POST", path, body, as).Problem(http.StatusServiceUnavailable, fault.SlugOverloaded)
	}
	_, err := other.Write([]byte("}"))
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, servertest.StatusOn(t, other))
	require.Equal(t, http.StatusCreated, h.Do("POST", path, body, as).Status)
	h.Do("POST", path, `{"content":1}`, as).Problem(http.StatusTooManyRequests, fault.SlugRateLimited)
}

// TestRateLimitHeaders: each answer to a client with a limit of requests reports what is left.
func TestRateLimitHeaders(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	as := limited(t, &p, "requests=3/h")
	for _, remaining := range []int{2, 1, 0, 0} {
		got := h.Do("GET", "/v1/channels/none", "", as)
		require.Equal(t, `"requests";q=3;w=3600`, got.Header.Get("RateLimit-Policy"))
		require.Regexp(t, fmt.Sprintf(`^"requests";r=%d;t=[1-9]\d*$`, remaining), got.Header.Get("RateLimit"))
	}
	got := h.Do("GET", "/v1/channels/none", "", limited(t, &p, "waits=1"))
	require.Empty(t, got.Header["Ratelimit"])
}

// TestLimitsOfGRPC: all protocols are refused in their form.
func TestLimitsOfGRPC(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.WithQueues(), servertest.Closed(t, &p))
	for _, protocol := range servertest.Protocols {
		f := openmatch.NewFrontendServiceClient(protocol.Dial(t, h.GRPCAddr, h.URL))
		for _, limit := range []string{"tickets=1/h", "requests=1/h"} {
			as := limited(t, &p, limit)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", as.Value, "tidemark-queue", "duel")
			_, err := f.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
			require.NoError(t, err, protocol.Name)
			_, err = f.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
			require.Equal(t, codes.ResourceExhausted, status.Code(err), "%s: %v", protocol.Name, err)
			name, _, _ := strings.Cut(limit, "=")
			require.Contains(t, status.Convert(err).Message(), "the limit of "+name+" for this key, 1/h, is used up")
			if protocol.Native {
				require.Len(t, status.Convert(err).Details(), 1)
				require.InDelta(t, 1800,
					status.Convert(err).Details()[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration().Seconds(),
					1800)
			}
		}
	}
}

// TestLargeMessagesCount: a message on the listener of gRPC counts as a request for each 16 KiB, before it is decoded.
func TestLargeMessagesCount(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.WithQueues(), servertest.Closed(t, &p))
	f := openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.GRPCAddr, h.URL))
	large := &openmatch.Ticket{SearchFields: &openmatch.SearchFields{Tags: []string{strings.Repeat("x", 60<<10)}}}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", limited(t, &p, "requests=7/h").Value,
		"tidemark-queue", "duel")
	_, err := f.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: large})
	require.Equal(t, codes.InvalidArgument, status.Code(err), "too large for the queue: it was decoded")
	_, err = f.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: large})
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	require.Contains(t, status.Convert(err).Message(), "the limit of requests for this key, 7/h, is used up")
	_, err = f.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
	require.NoError(t, err, "the refused message cost one request")
}

// TestLimitsOfWaits: too many waits of a client are refused, and others aren't affected.
func TestLimitsOfWaits(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.WithQueues(), servertest.Closed(t, &p))
	ann, bob := limited(t, &p, "waits=2"), limited(t, &p, "waits=2")
	for _, as := range []servertest.Header{ann, bob} {
		token := strings.TrimPrefix(as.Value, "Bearer ")
		for range 2 {
			waitAs(h, token)
		}
		const messages = "/v1/channels/c/subscribers/s/messages"
		h.Do("GET", messages+"?wait=20s", "", as).Problem(http.StatusTooManyRequests, fault.SlugTooManyWaits)
		h.Do("POST", "/v1/channels/c/subscribers/s/next", `{"wait":"20s"}`, as).Problem(http.StatusTooManyRequests,
			fault.SlugTooManyWaits)
		h.Do("POST", "/v1/fetch", `{"wait":"20s","from":[{"channel":"c","subscriber":"s"}]}`,
			as).Problem(http.StatusTooManyRequests, fault.SlugTooManyWaits)
		h.Do("GET", "/channel/c/subscription/polling/s?timeout=20s", "", as).OldError(http.StatusTooManyRequests, "")
		require.Equal(t, http.StatusOK, h.Do("GET", messages, "", as).Status, "it doesn't wait")
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", as.Value)
		watch, err := openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.GRPCAddr, h.URL)).
			WatchAssignments(ctx, &openmatch.WatchAssignmentsRequest{TicketId: "t"})
		require.NoError(t, err)
		_, err = watch.Recv()
		require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	}
}

// TestWaitsOfFetchesOfMany: each 8 channels count as one request that waits.
func TestWaitsOfFetchesOfMany(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	as := limited(t, &p, "waits=4")
	from := make([]string, 24)
	for i := range from {
		from[i] = fmt.Sprint("c", i)
		require.Equal(t, http.StatusCreated, h.Do("PUT", "/v1/channels/"+from[i]+"/subscribers/s", "", as).Status)
	}
	h.As(strings.TrimPrefix(as.Value, "Bearer "))
	body := func(n int) string {
		return strings.Replace(servertest.FetchBody(from[:n]...), "{", `{"wait":"20s",`, 1)
	}
	h.Waiting(t.Context(), 1, "POST /v1/fetch "+body(24)) // 3 of 4
	h.Do("POST", "/v1/fetch", body(9)).Problem(http.StatusTooManyRequests, fault.SlugTooManyWaits)
	h.Do("POST", "/v1/fetch", servertest.FetchBody(from...)).Expect(200, `{"deliveries":[],"problems":[]}`)
	h.Waiting(t.Context(), 1, "POST /v1/fetch "+body(8))
}

// waitAs makes a fetch wait.
func waitAs(h *servertest.Harness, token string) {
	h.TB.Helper()
	other := *h
	other.Client = servertest.Client(h.TB, false)
	other.As(token)
	other.Subscribe("c", "s")
	other.Waiting(h.TB.Context(), 1, "GET /v1/channels/c/subscribers/s/messages?wait=20s")
}

// TestManyChannelsOfOneKey: a key that invents names creates as many channels as its limit allows, and no more are in
// Redis.
func TestManyChannelsOfOneKey(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	const limit = 20
	as, made := limited(t, &p, fmt.Sprintf("newChannels=%d/d", limit)), 0
	for i := range 1000 {
		if h.Do("POST", fmt.Sprintf("/v1/channels/%d/messages", i), `{"content":1}`, as).Status == http.StatusCreated {
			made++
		}
	}
	require.Equal(t, limit, made)
	require.Equal(t, http.StatusCreated, h.Do("POST", "/v1/channels/0/messages", `{"content":1}`, as).Status,
		"it exists")
	require.Equal(t, http.StatusCreated, h.Do("POST", "/v1/channels/new/messages", `{"content":1}`,
		limited(t, &p, "off")).Status)
	require.Equal(t, http.StatusNotFound, h.Do("GET", "/v1/channels/999", "", as).Status)
}

// TestLimitsOfStrays: requests without a route count for their address, whoever sends them.
func TestLimitsOfStrays(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) {
		s.Clients.Limits = limits.Options{Addresses: parseLimits(t, "requests=3/h")}
	})
	for path, want := range map[string]int{"/nothing": http.StatusNotFound, "/v1/info": http.StatusMethodNotAllowed} {
		require.Equal(t, want, h.Do("PATCH", path, "").Status, path)
	}
	require.Equal(t, http.StatusOK, h.Do("GET", "/v1/info", "").Status)
	h.Do("GET", "/nothing", "").Problem(http.StatusTooManyRequests, fault.SlugRateLimited)
	h.Do("PATCH", "/v1/info", "").Problem(http.StatusTooManyRequests, fault.SlugRateLimited)
	require.Equal(t, http.StatusOK, h.Do("GET", "/livez", "").Status, "probes have no limits")
}

// TestLimitsOfAddresses: an open service limits addresses. Only a trusted proxy can report a client's address.
func TestLimitsOfAddresses(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		h := servertest.Start(t, servertest.WithQueues(), func(s *servertest.Setup) {
			s.Clients.Limits = limits.Options{Addresses: parseLimits(t, "requests=1/h")}
			if trusted {
				s.Clients.TrustProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
		})
		get := func(from string) int {
			return h.Do("GET", "/v1/info", "", servertest.Header{Name: "X-Forwarded-For", Value: from}).Status
		}
		require.Equal(t, http.StatusOK, get("192.0.2.1"))
		require.Equal(t, http.StatusTooManyRequests, get("192.0.2.1"))
		other := http.StatusOK
		if !trusted {
			other = http.StatusTooManyRequests
		}
		require.Equal(t, other, get("192.0.2.2"))
		require.Equal(t, http.StatusOK, h.Do("GET", "/livez", "").Status, "probes have no limits")
		f := openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.GRPCAddr, h.URL))
		for from, refused := range map[string]bool{"192.0.2.1": true, "192.0.2.2": true, "192.0.2.3": !trusted} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", from)
			_, err := f.GetTicket(ctx, &openmatch.GetTicketRequest{TicketId: "t"})
			require.Equal(t, refused, status.Code(err) == codes.ResourceExhausted, "%s: %v", from, err)
		}
		client := "127.0.0.1:"
		if trusted {
			client = "192.0.2.2"
		}
		h.Logs.Await(t, func(r servertest.Record) bool { return strings.HasPrefix(r.Attributes["client"], client) })
	}
}
