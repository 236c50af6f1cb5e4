package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// at returns a harness whose requests go to the listener of a service of Open Match, and a connection to it.
func at(h *servertest.Harness, service string) (*servertest.Harness, *grpcgo.ClientConn) {
	h.TB.Helper()
	other := *h
	other.Addr = h.OpenMatch[service]
	other.URL = "http://" + other.Addr
	conn, err := grpcgo.NewClient(other.Addr, grpcgo.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(h.TB, err)
	h.TB.Cleanup(func() { require.NoError(h.TB, conn.Close()) })
	return &other, conn
}

// TestPortsOfOpenMatch: each port has one service, by gRPC and JSON, health checks, reflection and the probes.
func TestPortsOfOpenMatch(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues(), func(s *servertest.Setup) {
		s.OpenMatch = []string{"frontend", "query"}
	})
	_, onFrontend := at(h, "frontend")
	made, err := openmatch.NewFrontendServiceClient(onFrontend).CreateTicket(t.Context(),
		&openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
	require.NoError(t, err)
	path := "/v1/frontendservice/tickets/" + made.GetId()
	for service, full := range map[string]string{"frontend": "openmatch.FrontendService", "query": "openmatch.QueryService"} {
		h, conn := at(h, service)
		refusal := "this port serves " + full + " only; openmatch-listen has the ports of other services"
		_, err := openmatch.NewFrontendServiceClient(conn).GetTicket(t.Context(),
			&openmatch.GetTicketRequest{TicketId: made.GetId()})
		stream, queryErr := openmatch.NewQueryServiceClient(conn).QueryTicketIds(t.Context(),
			&openmatch.QueryTicketIdsRequest{Pool: &openmatch.Pool{}})
		require.NoError(t, queryErr)
		page, queryErr := stream.Recv()
		if service == "frontend" {
			require.NoError(t, err)
			err = queryErr
			require.Equal(t, 200, gateway(h, http.MethodGet, path, ""))
			h.Do(http.MethodPost, "/v1/queryservice/tickets:query", `{"pool":{}}`).Problem(404, fault.SlugNoPath)
		} else {
			require.NoError(t, queryErr)
			require.Equal(t, []string{made.GetId()}, page.GetIds())
			require.Equal(t, 200, gateway(h, http.MethodPost, "/v1/queryservice/tickets:query", `{"pool":{}}`))
			require.Equal(t, refusal, h.Do(http.MethodGet, path, "").Problem(404, fault.SlugNoPath).Detail)
		}
		require.Equal(t, codes.Unimplemented, status.Code(err))
		require.Equal(t, refusal, status.Convert(err).Message())

		checked, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
			&grpc_health_v1.HealthCheckRequest{Service: full})
		require.NoError(t, err)
		require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, checked.GetStatus())
		require.Equal(t, []string{
			"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection", full,
		}, reflected(t, conn))
		for _, probe := range []string{"/livez", "/readyz", "/healthz"} {
			require.Equal(t, 200, h.Do(http.MethodGet, probe, "").Status)
		}
		h.Do(http.MethodGet, "/v1/info", "").Problem(404, fault.SlugNoPath)
		h.Do(http.MethodGet, "/v1/tickets/"+made.GetId(), "").Problem(404, fault.SlugNoPath)
		h.Do(http.MethodGet, "/", "").Problem(404, fault.SlugNoPath)
	}
}

// reflected returns the services that reflection names.
func reflected(t *testing.T, conn *grpcgo.ClientConn) (names []string) {
	t.Helper()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	}))
	answer, err := stream.Recv()
	require.NoError(t, err)
	for _, service := range answer.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	require.NoError(t, stream.CloseSend())
	return names
}

// gateway calls one of Open Match's JSON paths, and returns the status of the answer.
func gateway(h *servertest.Harness, method, path, body string) int {
	h.TB.Helper()
	request, err := http.NewRequestWithContext(h.TB.Context(), method, h.URL+path, strings.NewReader(body))
	require.NoError(h.TB, err)
	answer, err := h.Client.Do(request)
	require.NoError(h.TB, err)
	require.NoError(h.TB, answer.Body.Close())
	return answer.StatusCode
}

// TestHostNamesOfPorts: a page whose host name was made to resolve to this machine can't use a port on a loopback
// address.
func TestHostNamesOfPorts(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues(), func(s *servertest.Setup) { s.OpenMatch = []string{"frontend"} })
	on, _ := at(h, "frontend")
	got := on.Raw("GET /v1/frontendservice/tickets/x HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
	require.Equal(t, http.StatusMisdirectedRequest, got.Status)
}

// overHTTP serves a match function and an evaluator by Open Match's HTTP transcoding. The function proposes matches; the
// evaluator accepts the last one that it reads.
func overHTTP(t *testing.T, propose func() []*openmatch.Match) string {
	t.Helper()
	answer := func(w http.ResponseWriter, m proto.Message) {
		text, err := protojson.Marshal(m)
		if err == nil {
			_, _ = fmt.Fprintf(w, "{\"result\":%s}\n", text)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/matchfunction:run", func(w http.ResponseWriter, r *http.Request) {
		request := new(openmatch.RunRequest)
		body, err := io.ReadAll(r.Body)
		if err != nil || protojson.Unmarshal(body, request) != nil || request.GetProfile().GetName() != "ranked" {
			_, _ = io.WriteString(w, `{"error":{"code":9,"message":"no such profile"}}`)
			return
		}
		for _, m := range propose() {
			answer(w, &openmatch.RunResponse{Proposal: m})
		}
	})
	mux.HandleFunc("POST /v1/evaluator/matches:evaluate", func(w http.ResponseWriter, r *http.Request) {
		var last string
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			request := new(openmatch.EvaluateRequest)
			if protojson.Unmarshal(lines.Bytes(), request) == nil {
				last = request.GetMatch().GetMatchId()
			}
		}
		if last != "" {
			answer(w, &openmatch.EvaluateResponse{MatchId: last})
		}
	})
	served := httptest.NewServer(mux)
	t.Cleanup(served.Close)
	return served.URL
}

// TestFetchMatchesOverHTTP: a function and an evaluator without gRPC decide on tickets that are matched and assigned.
func TestFetchMatchesOverHTTP(t *testing.T) {
	t.Parallel()
	var tickets []*openmatch.Ticket
	at := overHTTP(t, func() []*openmatch.Match {
		return []*openmatch.Match{{MatchId: "1", Tickets: tickets[:2]}, {MatchId: "2", Tickets: tickets[1:]}}
	})
	h := servertest.Start(t, servertest.WithQueues("open",
		`{"director": "user", "evaluator": {"kind": "http", "url": "`+at+`"}}`))
	for range 3 {
		tickets = append(tickets, &openmatch.Ticket{Id: h.Create(`{"queue":"open"}`).ID})
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(at, "http://"))
	require.NoError(t, err)
	number, err := strconv.ParseInt(port, 10, 32)
	require.NoError(t, err)
	b := openmatch.NewBackendServiceClient(servertest.Native.Dial(t, h.GRPCAddr, h.URL))
	inQueue := metadata.AppendToOutgoingContext(t.Context(), "tidemark-queue", "open")
	fetch := func(profile string) (ids []string, err error) {
		stream, err := b.FetchMatches(inQueue, &openmatch.FetchMatchesRequest{
			Config:  &openmatch.FunctionConfig{Host: host, Port: int32(number), Type: openmatch.FunctionConfig_REST},
			Profile: &openmatch.MatchProfile{Name: profile},
		})
		require.NoError(t, err)
		for {
			answer, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return ids, nil
			}
			if err != nil {
				return ids, err
			}
			ids = append(ids, answer.GetMatch().GetMatchId())
		}
	}
	ids, err := fetch("ranked")
	require.NoError(t, err)
	require.Equal(t, []string{"2"}, ids)
	for i, want := range []string{"SEARCHING", "PENDING", "PENDING"} {
		require.Equal(t, want, h.Ticket(tickets[i].GetId()).Status)
	}
	_, err = b.AssignTickets(inQueue, &openmatch.AssignTicketsRequest{Assignments: []*openmatch.AssignmentGroup{{
		TicketIds: []string{tickets[1].GetId()}, Assignment: &openmatch.Assignment{Connection: "h:1"},
	}}})
	require.NoError(t, err)
	require.Equal(t, "h:1", h.Ticket(tickets[1].GetId()).Assignment.Connection)
	_, err = fetch("other")
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.NotContains(t, status.Convert(err).Message(), "no such profile", "what a function answers stays in the log")
}
