package grpc_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

func packed(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	require.NoError(t, err)
	return a
}

// TestTicketByEveryProtocol creates a ticket, reads it, and watches it until it has its match.
func TestTicketByEveryProtocol(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, p := range servertest.Protocols {
		sent := &openmatch.Ticket{
			Id:              "ignored",
			SearchFields:    &openmatch.SearchFields{DoubleArgs: map[string]float64{"skill": 3}, Tags: []string{"t"}},
			Extensions:      map[string]*anypb.Any{"e": packed(t, wrapperspb.String("x"))},
			PersistentField: map[string]*anypb.Any{"hero": {TypeUrl: "mygame.example/mygame.Hero", Value: []byte{0, 255, 1}}},
		}
		f := h.frontend(p)
		if p.Name == "Connect with JSON" {
			sent.PersistentField = nil // JSON can't hold an Any of an unknown type
		}
		created := h.create(f, sent, "Tidemark-Queue", "q")
		require.NotEqual(t, sent.GetId(), created.GetId())
		require.NotNil(t, created.GetCreateTime())
		sent.Id, sent.CreateTime = created.GetId(), created.GetCreateTime()
		require.True(t, proto.Equal(sent, created))
		require.Equal(t, "q", h.matches.get(created.GetId()).Queue)
		require.Equal(t, []matchmaking.Statistic{{Name: "skill", Value: 3}}, h.matches.get(created.GetId()).Statistics)
		got, err := h.get(f, created.GetId())
		require.NoError(t, err)
		require.True(t, proto.Equal(created, got))

		first := h.watch(f, created.GetId())
		h.awaitWaiting(1)
		h.matches.assign(created.GetId(), "host:1")
		assigned := first.receives(t)
		require.Equal(t, "host:1", assigned.GetConnection())
		require.Contains(t, assigned.GetExtensions(), "region")
		require.True(t, proto.Equal(assigned, h.watch(f, created.GetId()).receives(t)), "another watch gets it too")
		got, err = h.get(f, created.GetId())
		require.NoError(t, err)
		require.True(t, proto.Equal(assigned, got.GetAssignment()))
	}
}

// TestMatchOfAnAssignment: an assignment says nothing about its match unless the client asks for it, since clients read
// JSON with an Any only if they know its type.
func TestMatchOfAnAssignment(t *testing.T) {
	t.Parallel()
	h := start(t)
	ticket := h.newID(h.frontend(servertest.Native))
	h.matches.set(func() {
		h.matches.tickets[ticket].Status = matchmaking.MatchFound
		h.matches.tickets[ticket].Assignment = &matchmaking.Assignment{MatchID: "m", Queue: "q", Connection: "host:1"}
	})
	read := func(answer string) error {
		unlinked := protojson.UnmarshalOptions{Resolver: new(protoregistry.Types)}
		return unlinked.Unmarshal([]byte(answer), new(openmatch.Ticket))
	}
	const path = "/v1/frontendservice/tickets/"
	require.NoError(t, read(h.text("GET", path+ticket, "")))
	require.Error(t, read(h.text("GET", path+ticket, "", "Tidemark-Match", "true")))
	for _, p := range servertest.Protocols {
		f := h.frontend(p)
		for asked, match := range map[string]bool{"": false, "false": false, "true": true} {
			ctx := t.Context()
			if asked != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "Tidemark-Match", asked)
			}
			got, err := f.GetTicket(ctx, &openmatch.GetTicketRequest{TicketId: ticket})
			require.NoError(t, err)
			require.Equal(t, match, got.GetAssignment().GetExtensions()["tidemark.match"] != nil)
			watched := h.watchIn(ctx, f, ticket).receives(t)
			require.True(t, proto.Equal(got.GetAssignment(), watched))
			again, err := f.CreateTicket(metadata.AppendToOutgoingContext(ctx, "Tidemark-Ticket-Id", ticket),
				&openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
			require.NoError(t, err)
			require.True(t, proto.Equal(got, again))
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "Tidemark-Match", "yes")
		const text = `tidemark-match is "yes", it must be true or false`
		_, err := f.GetTicket(ctx, &openmatch.GetTicketRequest{TicketId: ticket})
		isError(t, err, codes.InvalidArgument, text)
		isError(t, h.watchIn(ctx, f, ticket).ends(t), codes.InvalidArgument, text)
		_, err = f.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
		isError(t, err, codes.InvalidArgument, text)
	}
	h.matches.set(func() { require.Len(t, h.matches.tickets, 1) })
}

// TestRequestID is in the headers if the client sent one, in the trailers if the call failed, and on the HTTP port in
// any case.
func TestRequestID(t *testing.T) {
	t.Parallel()
	h := start(t)
	native, onPort := h.frontend(servertest.Native), h.frontend(servertest.GRPCGo)
	ticket := h.newID(native)
	for name, c := range map[string]struct {
		f          openmatch.FrontendServiceClient
		id         string
		kv         []string
		head, tail int // how many IDs there are
	}{
		"success":                  {f: native, id: ticket},
		"success, sent":            {f: native, id: ticket, kv: []string{"x-request-id", "mine"}, head: 1},
		"success, not to be used":  {f: native, id: ticket, kv: []string{"x-request-id", "a b"}, head: 1},
		"failure":                  {f: native, id: "cat", tail: 1},
		"failure, sent":            {f: native, id: "cat", kv: []string{"x-request-id", "mine"}, head: 1, tail: 1},
		"HTTP port":                {f: onPort, id: ticket, head: 1},
		"HTTP port, failure, sent": {f: onPort, id: "cat", kv: []string{"x-request-id", "mine"}, head: 1},
	} {
		var header, trailer metadata.MD
		ctx := metadata.AppendToOutgoingContext(t.Context(), c.kv...)
		_, err := c.f.GetTicket(ctx, &openmatch.GetTicketRequest{TicketId: c.id}, grpcgo.Header(&header), grpcgo.Trailer(&trailer))
		require.Equal(t, c.id == "cat", err != nil, name)
		head, tail := header.Get("x-request-id"), trailer.Get("x-request-id")
		require.Len(t, head, c.head, name)
		require.Len(t, tail, c.tail, name)
		for _, id := range append(head, tail...) {
			require.Equal(t, slices.Contains(c.kv, "mine"), id == "mine", name)
			require.NotEqual(t, "a b", id, name)
		}
	}
}

// TestDeindexTicket takes a ticket out of its queue, which can be read until it is deleted.
func TestDeindexTicket(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, p := range servertest.Protocols {
		f := h.frontend(p)
		ticket := h.create(f, &openmatch.Ticket{SearchFields: &openmatch.SearchFields{Tags: []string{"a"}}})
		for range 2 {
			_, err := f.DeindexTicket(t.Context(), &openmatch.DeindexTicketRequest{TicketId: ticket.GetId()})
			require.NoError(t, err)
			found, err := h.get(f, ticket.GetId())
			require.NoError(t, err)
			require.True(t, proto.Equal(ticket, found), "%s %s", ticket, found)
		}
		_, err := f.DeleteTicket(t.Context(), &openmatch.DeleteTicketRequest{TicketId: ticket.GetId()})
		require.NoError(t, err)
		_, err = h.get(f, ticket.GetId())
		isError(t, err, codes.NotFound, "Ticket id: "+ticket.GetId()+" not found")
	}
}

// TestDeleteTicket succeeds in every state of the ticket, which is removed. DeindexTicket leaves a matched one.
func TestDeleteTicket(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, p := range servertest.Protocols {
		f := h.frontend(p)
		matched, deindexed, deleted := h.newID(f), h.newID(f), h.newID(f)
		h.matches.assign(matched, "host:1")
		h.matches.assign(deindexed, "host:1")
		for _, id := range []string{matched, deleted, deleted, "never-was", "not an ID", ""} {
			_, err := f.DeleteTicket(t.Context(), &openmatch.DeleteTicketRequest{TicketId: id})
			require.NoError(t, err)
			_, err = h.get(f, id)
			isError(t, err, codes.NotFound, "Ticket id: "+id+" not found")
		}
		for _, id := range []string{deindexed, matched, deleted, "never-was", ""} {
			_, err := f.DeindexTicket(t.Context(), &openmatch.DeindexTicketRequest{TicketId: id})
			require.NoError(t, err)
		}
		_, err := h.get(f, deindexed)
		require.NoError(t, err)
	}
}

// TestRepeatedCreate returns the ticket that exists.
func TestRepeatedCreate(t *testing.T) {
	t.Parallel()
	h := start(t)
	f := h.frontend(servertest.GRPC)
	first := h.create(f, &openmatch.Ticket{SearchFields: &openmatch.SearchFields{Tags: []string{"a"}}}, "Tidemark-Ticket-Id", "mine")
	require.Equal(t, "mine", first.GetId())
	require.True(t, proto.Equal(first, h.create(f, &openmatch.Ticket{}, "Tidemark-Ticket-Id", "mine")))
}

// TestRefusedTickets checks that errors have Open Match's texts, where it has any.
func TestRefusedTickets(t *testing.T) {
	t.Parallel()
	h := start(t)
	for text, ticket := range map[string]*openmatch.Ticket{
		".ticket is required":                            nil,
		"tickets cannot be created with an assignment":   {Assignment: &openmatch.Assignment{}},
		"tickets cannot be created with create time set": {CreateTime: &timestamppb.Timestamp{}},
		`extensions.tidemark.match: it is a "type.googleapis.com/google.protobuf.StringValue", and not a google.protobuf.Value, Struct or ListValue`: {
			Extensions: map[string]*anypb.Any{"tidemark.match": packed(t, wrapperspb.String("x"))},
		},
	} {
		for _, p := range servertest.Protocols {
			_, err := h.frontend(p).CreateTicket(t.Context(), &openmatch.CreateTicketRequest{Ticket: ticket})
			isError(t, err, codes.InvalidArgument, text)
		}
	}
	large := &openmatch.Ticket{SearchFields: &openmatch.SearchFields{Tags: []string{strings.Repeat("x", maxBodyBytes)}}}
	for _, p := range servertest.Protocols {
		_, err := h.frontend(p).CreateTicket(t.Context(), &openmatch.CreateTicketRequest{Ticket: large})
		require.Equal(t, codes.ResourceExhausted, status.Code(err), "%s: %v", p.Name, err)
	}
	require.Empty(t, h.matches.tickets)
}

// TestEmptyMessages sends an empty message to every procedure: none panics.
func TestEmptyMessages(t *testing.T) {
	t.Parallel()
	h := start(t)
	for procedure, text := range map[string]string{
		openmatch.FrontendService_CreateTicket_FullMethodName:        ".ticket is required",
		openmatch.FrontendService_AcknowledgeBackfill_FullMethodName: ".BackfillId is required",
		openmatch.FrontendService_CreateBackfill_FullMethodName:      ".backfill is required",
		openmatch.FrontendService_UpdateBackfill_FullMethodName:      ".backfill is required",
		openmatch.BackendService_FetchMatches_FullMethodName:         ".config is required",
		openmatch.QueryService_QueryBackfills_FullMethodName:         ".pool is required",
		openmatch.QueryService_QueryTickets_FullMethodName:           ".pool is required",
		openmatch.QueryService_QueryTicketIds_FullMethodName:         ".pool is required",
	} {
		for _, p := range servertest.Protocols {
			if !strings.Contains(procedure, "Fetch") && !strings.Contains(procedure, "Query") {
				isError(t, h.dial(p).Invoke(t.Context(), procedure, &emptypb.Empty{}, &emptypb.Empty{}),
					codes.InvalidArgument, text)
				continue
			}
			stream, err := h.dial(p).NewStream(t.Context(), &grpcgo.StreamDesc{ServerStreams: true}, procedure)
			require.NoError(t, err)
			require.NoError(t, stream.SendMsg(&emptypb.Empty{}))
			require.NoError(t, stream.CloseSend())
			isError(t, stream.RecvMsg(&emptypb.Empty{}),
				codes.InvalidArgument, text)
		}
	}
}

// TestErrorsOfCalls shows the code of each kind of error, and that its cause isn't shown.
func TestErrorsOfCalls(t *testing.T) {
	t.Parallel()
	h := start(t)
	f := h.frontend(servertest.GRPC)
	kind := func(k fault.Kind) error {
		return fmt.Errorf("create: %w", &fault.Error{Kind: k, Slug: "s", Detail: "the detail", Cause: errors.New("secret")})
	}
	const inside = "an error occurred in the service; its log has more under the request's ID"
	for _, c := range []struct {
		err  error
		code codes.Code
		text string
	}{
		{kind(fault.Invalid), codes.InvalidArgument, "the detail"},
		{kind(fault.NotFound), codes.NotFound, "the detail"},
		{kind(fault.Forbidden), codes.PermissionDenied, "the detail"},
		{kind(fault.Conflict), codes.FailedPrecondition, "the detail"},
		{kind(fault.TooLarge), codes.InvalidArgument, "the detail"},
		{kind(fault.StorageFull), codes.ResourceExhausted, "the detail"},
		{kind(fault.Unavailable), codes.Unavailable, "the detail"},
		{kind(fault.Internal), codes.Internal, inside},
		{matchmaking.ErrTicketExists, codes.AlreadyExists, matchmaking.ErrTicketExists.Detail},
		{errors.New("secret"), codes.Internal, inside},
	} {
		h.matches.set(func() { h.matches.fail = func() error { return c.err } })
		_, err := f.CreateTicket(t.Context(), &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
		isError(t, err, c.code, c.text)
		_, err = f.DeleteTicket(t.Context(), &openmatch.DeleteTicketRequest{TicketId: "t"})
		isError(t, err, c.code, c.text)
	}
	h.matches.set(func() { h.matches.fail = func() error { panic("a fault") } })
	_, err := f.CreateTicket(t.Context(), &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
	isError(t, err, codes.Internal, inside)
	require.Equal(t, "a fault", h.logs.AwaitMessage(t, "panic in a handler").Attributes["panic"])
	h.matches.set(func() { h.matches.fail = nil })
	h.newID(f)
}

// TestMetricsOfCalls counts calls by their procedure and outcome.
func TestMetricsOfCalls(t *testing.T) {
	t.Parallel()
	h := start(t)
	f := h.frontend(servertest.GRPC)
	_, err := h.get(f, h.newID(f))
	require.NoError(t, err)
	_, err = h.get(f, "never-was")
	require.Error(t, err)
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(h.metrics, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, line := range []string{
		`tidemark_http_requests_total{code="200",method="POST",route="/openmatch.FrontendService/CreateTicket"} 1`,
		`tidemark_http_requests_total{code="404",method="POST",route="/openmatch.FrontendService/GetTicket"} 1`,
		`tidemark_http_requests_total{code="200",method="POST",route="/openmatch.FrontendService/GetTicket"} 1`,
	} {
		require.Contains(t, recorder.Body.String(), "\n"+line)
	}
	logged := h.logs.Await(t, func(r servertest.Record) bool { return r.Attributes["status"] == "404" })
	require.Equal(t, "/openmatch.FrontendService/GetTicket", logged.Attributes["path"])
	require.Contains(t, logged.Attributes["error"], "Ticket id: never-was not found")
}
