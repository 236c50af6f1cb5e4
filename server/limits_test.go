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

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/access/limits"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
)

func parseLimits(t testing.TB, text string) access.Limits {
	t.Helper()
	l, err := access.ParseLimits(text)
	require.NoError(t, err)
	return l
}

// limited returns the credential of a new key that may do everything, as much as its limits allow.
func (p *people) limited(t testing.TB, text string) header {
	t.Helper()
	credential := "limited" + strconv.Itoa(len(p.known))
	p.add(t, credential, `[{"actions":["publish","subscribe","describe","ticket","queue"]}]`)
	p.known[credential].Limits = parseLimits(t, text)
	return bearer(credential)
}

// TestLimits: what is beyond a limit is refused, by each API in its form, and what isn't is still served.
func TestLimits(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, withQueues(), closed(t, &p))
	for i, tt := range []struct{ limits, served, refused, still string }{
		{"requests=1/h", "GET /v1/info", "GET /v1/info", ""},
		{"requests=1/h", "PUT /channel/0/subscription/polling/s", "GET /channel/0/subscription/polling/s", ""},
		{"publishedBytes=10/h", `POST /v1/channels/2/messages {"content":12345678}`,
			`POST /v1/channels/2/messages {"content":123}`, `POST /v1/channels/2/messages {"content":1}`},
		{"publishedBytes=10/h", `PUT /v1/channels/3/messages/a 12345678`,
			`POST /v1/channels/3/messages [{"content":12},{"content":3}]`, ""},
		{"publishedBytes=10/h", `PUT /channel/4/message/a 12345678`, `PUT /channel/4/message/b 123`, ""},
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
		as := p.limited(t, tt.limits)
		do := func(call string) answer {
			t.Helper()
			method, path, body := cut(call)
			return h.do(method, path, body, as)
		}
		require.Less(t, do(tt.served).status, 300, "%d %s", i, tt.served)
		got := do(tt.refused)
		switch {
		case strings.Contains(tt.refused, " /channel/"):
			got.oldError(http.StatusTooManyRequests, "")
		case strings.Contains(tt.refused, "frontendservice"):
			require.Contains(t, string(got.body), `"code":8`)
			require.Equal(t, http.StatusTooManyRequests, got.status)
		default:
			got.problem(http.StatusTooManyRequests, fault.SlugRateLimited)
		}
		seconds, err := strconv.Atoi(got.header.Get("Retry-After"))
		require.NoError(t, err)
		require.InDelta(t, 1800, seconds, 1800)
		if tt.still != "" {
			require.Less(t, do(tt.still).status, 300, tt.still)
		}
	}
	p.add(t, "admin", `[{"actions":["admin"]}]`)
	require.Contains(t, string(h.onAdmin().do("GET", "/metrics", "", bearer("admin")).body),
		`tidemark_limited_total{limit="newChannels",of="key"} 3`)
}

// TestRateLimitHeaders: a client with a limit of requests is told how it stands, in each answer.
func TestRateLimitHeaders(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	as := p.limited(t, "requests=3/h")
	for _, left := range []int{2, 1, 0, 0} {
		got := h.do("GET", "/v1/channels/none", "", as)
		require.Equal(t, `"requests";q=3;w=3600`, got.header.Get("RateLimit-Policy"))
		require.Regexp(t, fmt.Sprintf(`^"requests";r=%d;t=[1-9]\d*$`, left), got.header.Get("RateLimit"))
	}
	got := h.do("GET", "/v1/channels/none", "", p.limited(t, "waits=1"))
	require.Empty(t, got.header["Ratelimit"])
}

// TestLimitsOfGRPC: all protocols are refused in their form.
func TestLimitsOfGRPC(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, withQueues(), closed(t, &p))
	for _, protocol := range servertest.Protocols {
		f := openmatch.NewFrontendServiceClient(protocol.Dial(t, h.grpcAddr, h.url))
		for _, limit := range []string{"tickets=1/h", "requests=1/h"} {
			as := p.limited(t, limit)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", as.value, "tidemark-queue", "duel")
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

// TestLimitsOfWaits: who waits too often is refused, and others aren't held up.
func TestLimitsOfWaits(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, withQueues(), closed(t, &p))
	ann, bob := p.limited(t, "waits=2"), p.limited(t, "waits=2")
	for _, as := range []header{ann, bob} {
		token := strings.TrimPrefix(as.value, "Bearer ")
		for range 2 {
			h.waitAs(token)
		}
		const messages = "/v1/channels/c/subscribers/s/messages"
		h.do("GET", messages+"?wait=20s", "", as).problem(http.StatusTooManyRequests, fault.SlugTooManyWaits)
		h.do("POST", "/v1/channels/c/subscribers/s/next", `{"wait":"20s"}`, as).problem(http.StatusTooManyRequests,
			fault.SlugTooManyWaits)
		h.do("POST", "/v1/fetch", `{"wait":"20s","from":[{"channel":"c","subscriber":"s"}]}`,
			as).problem(http.StatusTooManyRequests, fault.SlugTooManyWaits)
		h.do("GET", "/channel/c/subscription/polling/s?timeout=20s", "", as).oldError(http.StatusTooManyRequests, "")
		require.Equal(t, http.StatusOK, h.do("GET", messages, "", as).status, "it doesn't wait")
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", as.value)
		watch, err := openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.grpcAddr, h.url)).
			WatchAssignments(ctx, &openmatch.WatchAssignmentsRequest{TicketId: "t"})
		require.NoError(t, err)
		_, err = watch.Recv()
		require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	}
}

// TestWaitsOfFetchesOfMany: each 8 channels count as one request that waits.
func TestWaitsOfFetchesOfMany(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	as := p.limited(t, "waits=4")
	from := make([]string, 24)
	for i := range from {
		from[i] = fmt.Sprint("c", i)
		require.Equal(t, http.StatusCreated, h.do("PUT", "/v1/channels/"+from[i]+"/subscribers/s", "", as).status)
	}
	h.as(strings.TrimPrefix(as.value, "Bearer "))
	body := func(n int) string { return strings.Replace(fetchBody(from[:n]...), "{", `{"wait":"20s",`, 1) }
	h.waiting(t.Context(), 1, "POST /v1/fetch "+body(24)) // 3 of 4
	h.do("POST", "/v1/fetch", body(9)).problem(http.StatusTooManyRequests, fault.SlugTooManyWaits)
	h.do("POST", "/v1/fetch", fetchBody(from...)).is(200, `{"deliveries":[],"problems":[]}`)
	h.waiting(t.Context(), 1, "POST /v1/fetch "+body(8))
}

// waitAs makes a fetch wait.
func (h *harness) waitAs(token string) {
	h.t.Helper()
	other := *h
	other.client = servertest.Client(h.t, false)
	other.as(token)
	other.subscribe("c", "s")
	other.waiting(h.t.Context(), 1, "GET /v1/channels/c/subscribers/s/messages?wait=20s")
}

// TestManyChannelsOfOneKey: a key that makes up names makes as many channels as its limit, and no more are in Redis.
func TestManyChannelsOfOneKey(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	const most = 20
	as, made := p.limited(t, fmt.Sprintf("newChannels=%d/d", most)), 0
	for i := range 1000 {
		if h.do("POST", fmt.Sprintf("/v1/channels/%d/messages", i), `{"content":1}`, as).status == http.StatusCreated {
			made++
		}
	}
	require.Equal(t, most, made)
	require.Equal(t, http.StatusCreated, h.do("POST", "/v1/channels/0/messages", `{"content":1}`, as).status,
		"it exists")
	require.Equal(t, http.StatusCreated, h.do("POST", "/v1/channels/new/messages", `{"content":1}`,
		p.limited(t, "off")).status)
	require.Equal(t, http.StatusNotFound, h.do("GET", "/v1/channels/999", "", as).status)
}

// TestLimitsOfAddresses: an open service limits addresses. Only a trusted proxy says which.
func TestLimitsOfAddresses(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		h := start(t, withQueues(), func(s *setup) {
			s.Clients.Limits = limits.Options{Addresses: parseLimits(t, "requests=1/h")}
			if trusted {
				s.Clients.TrustProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
		})
		get := func(from string) int { return h.do("GET", "/v1/info", "", header{"X-Forwarded-For", from}).status }
		require.Equal(t, http.StatusOK, get("192.0.2.1"))
		require.Equal(t, http.StatusTooManyRequests, get("192.0.2.1"))
		other := http.StatusOK
		if !trusted {
			other = http.StatusTooManyRequests
		}
		require.Equal(t, other, get("192.0.2.2"))
		require.Equal(t, http.StatusOK, h.do("GET", "/livez", "").status, "probes have no limits")
		f := openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.grpcAddr, h.url))
		for from, refused := range map[string]bool{"192.0.2.1": true, "192.0.2.2": true, "192.0.2.3": !trusted} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", from)
			_, err := f.GetTicket(ctx, &openmatch.GetTicketRequest{TicketId: "t"})
			require.Equal(t, refused, status.Code(err) == codes.ResourceExhausted, "%s: %v", from, err)
		}
		client := "127.0.0.1:"
		if trusted {
			client = "192.0.2.2"
		}
		h.logs.Await(t, func(r servertest.Record) bool { return strings.HasPrefix(r.Attributes["client"], client) })
	}
}
