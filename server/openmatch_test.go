package server_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/openmatchconnect"
	"github.com/tidemark-dev/tidemark/server"
)

// create makes a ticket.
func (r *rpcHarness) create(f openmatchconnect.FrontendServiceClient, ticket *openmatch.Ticket, metadata ...header) *openmatch.Ticket {
	r.t.Helper()
	request := connect.NewRequest(&openmatch.CreateTicketRequest{Ticket: ticket})
	for _, m := range metadata {
		request.Header().Set(m.name, m.value)
	}
	response, err := f.CreateTicket(r.t.Context(), request)
	require.NoError(r.t, err)
	require.NotEmpty(r.t, response.Header().Get("X-Request-Id"))
	return response.Msg
}

func (r *rpcHarness) get(f openmatchconnect.FrontendServiceClient, id string) (*openmatch.Ticket, error) {
	response, err := f.GetTicket(r.t.Context(), connect.NewRequest(&openmatch.GetTicketRequest{TicketId: id}))
	if err != nil {
		return nil, err
	}
	return response.Msg, nil
}

// TestTicketByEveryProtocol takes a ticket through its life.
func TestTicketByEveryProtocol(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			r := startRPC(t)
			f := r.frontend(p)
			made := r.create(f, fullTicket(t), header{"tidemark-queue", "q"})
			want := fullTicket(t)
			require.NotEqual(t, want.GetId(), made.GetId())
			require.NotNil(t, made.GetCreateTime())
			want.Id, want.CreateTime = made.GetId(), made.GetCreateTime()
			require.True(t, proto.Equal(want, made))
			require.Equal(t, "q", r.matches.get(made.GetId()).Queue)
			require.Equal(t, []matchmaking.Statistic{{Name: "skill", Value: 3}}, r.matches.get(made.GetId()).Statistics)
			got, err := r.get(f, made.GetId())
			require.NoError(t, err)
			require.True(t, proto.Equal(made, got))

			watch := r.watch(f, made.GetId())
			r.awaitWaiting(1)
			r.matches.assign(t, made.GetId(), "host:1")
			require.True(t, watch.Receive(), "%v", watch.Err())
			require.Equal(t, "host:1", watch.Msg().GetAssignment().GetConnection())
			require.Contains(t, watch.Msg().GetAssignment().GetExtensions(), "region")
			again := r.watch(f, made.GetId())
			require.True(t, again.Receive(), "%v", again.Err())
			require.True(t, proto.Equal(watch.Msg(), again.Msg()))
			got, err = r.get(f, made.GetId())
			require.NoError(t, err)
			require.True(t, proto.Equal(watch.Msg().GetAssignment(), got.GetAssignment()))
		})
	}
}

// fullTicket is a ticket that has all that a client may send.
func fullTicket(t testing.TB) *openmatch.Ticket {
	t.Helper()
	return &openmatch.Ticket{
		Id:              "ignored",
		SearchFields:    &openmatch.SearchFields{DoubleArgs: map[string]float64{"skill": 3}, Tags: []string{"t"}},
		Extensions:      map[string]*anypb.Any{"e": packed(t, wrapperspb.String("x"))},
		PersistentField: map[string]*anypb.Any{"p": packed(t, structpb.NewStringValue("y"))},
	}
}

// TestDeleteTicket succeeds whatever became of the ticket.
func TestDeleteTicket(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	for _, p := range protocols {
		f := r.frontend(p)
		matched, given := r.create(f, &openmatch.Ticket{}).GetId(), r.create(f, &openmatch.Ticket{}).GetId()
		r.matches.assign(t, matched, "host:1")
		for _, id := range []string{matched, given, given, "never-was", "not an ID"} {
			_, err := f.DeleteTicket(t.Context(), connect.NewRequest(&openmatch.DeleteTicketRequest{TicketId: id}))
			require.NoError(t, err)
			_, err = f.DeindexTicket(t.Context(), connect.NewRequest(&openmatch.DeindexTicketRequest{TicketId: id}))
			require.NoError(t, err)
		}
		_, err := r.get(f, matched)
		require.NoError(t, err)
		_, err = r.get(f, given)
		isRPC(t, err, connect.CodeNotFound, "Ticket id: "+given+" not found")
	}
}

// TestExtensionsOfMyOwnType come back byte for byte.
func TestExtensionsOfMyOwnType(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	f := r.frontend(protocols[0])
	mine := map[string]*anypb.Any{"hero": {TypeUrl: "mygame.example/mygame.Hero", Value: []byte{0, 255, 1}}}
	got, err := r.get(f, r.create(f, &openmatch.Ticket{Extensions: mine, PersistentField: mine}).GetId())
	require.NoError(t, err)
	require.True(t, proto.Equal(mine["hero"], got.GetExtensions()["hero"]))
	require.True(t, proto.Equal(mine["hero"], got.GetPersistentField()["hero"]))
}

// TestTicketOfMyOwnID makes a ticket twice.
func TestTicketOfMyOwnID(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	f := r.frontend(protocols[0])
	first := r.create(f, &openmatch.Ticket{SearchFields: &openmatch.SearchFields{Tags: []string{"a"}}}, header{"tidemark-ticket-id", "mine"})
	require.Equal(t, "mine", first.GetId())
	again := r.create(f, &openmatch.Ticket{}, header{"tidemark-ticket-id", "mine"})
	require.True(t, proto.Equal(first, again))
}

// TestRefusedTickets answers in Open Match's words, where it has some.
func TestRefusedTickets(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	for text, ticket := range map[string]*openmatch.Ticket{
		".ticket is required":                            nil,
		"tickets cannot be created with an assignment":   {Assignment: &openmatch.Assignment{}},
		"tickets cannot be created with create time set": {CreateTime: &timestamppb.Timestamp{}},
		`extensions.tidemark.match: it is a "type.googleapis.com/google.protobuf.StringValue", and not a google.protobuf.Value, Struct or ListValue`: {
			Extensions: map[string]*anypb.Any{"tidemark.match": packed(t, wrapperspb.String("x"))},
		},
	} {
		for _, p := range protocols {
			_, err := r.frontend(p).CreateTicket(t.Context(), connect.NewRequest(&openmatch.CreateTicketRequest{Ticket: ticket}))
			isRPC(t, err, connect.CodeInvalidArgument, text)
		}
	}
	require.Empty(t, r.matches.tickets)
}

func packed(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	require.NoError(t, err)
	return a
}

// TestEmptyMessages sends an empty message to every call: none panics.
func TestEmptyMessages(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	const noID, invalid, unimplemented = ".ticket_id is required", connect.CodeInvalidArgument, connect.CodeUnimplemented
	for procedure, want := range map[string]struct {
		code connect.Code
		text string
	}{
		openmatchconnect.FrontendServiceCreateTicketProcedure:        {invalid, ".ticket is required"},
		openmatchconnect.FrontendServiceDeleteTicketProcedure:        {invalid, noID},
		openmatchconnect.FrontendServiceGetTicketProcedure:           {invalid, noID},
		openmatchconnect.FrontendServiceWatchAssignmentsProcedure:    {invalid, noID},
		openmatchconnect.FrontendServiceDeindexTicketProcedure:       {invalid, noID},
		openmatchconnect.FrontendServiceAcknowledgeBackfillProcedure: {unimplemented, "openmatch.FrontendService.AcknowledgeBackfill is not implemented"},
		openmatchconnect.FrontendServiceCreateBackfillProcedure:      {unimplemented, "openmatch.FrontendService.CreateBackfill is not implemented"},
		openmatchconnect.FrontendServiceDeleteBackfillProcedure:      {unimplemented, "openmatch.FrontendService.DeleteBackfill is not implemented"},
		openmatchconnect.FrontendServiceGetBackfillProcedure:         {unimplemented, "openmatch.FrontendService.GetBackfill is not implemented"},
		openmatchconnect.FrontendServiceUpdateBackfillProcedure:      {unimplemented, "openmatch.FrontendService.UpdateBackfill is not implemented"},
		openmatchconnect.QueryServiceQueryTicketsProcedure:           {invalid, ".pool is required"},
		openmatchconnect.QueryServiceQueryTicketIdsProcedure:         {invalid, ".pool is required"},
	} {
		for _, p := range protocols {
			client := connect.NewClient[emptypb.Empty, emptypb.Empty](rpcClient(t, p.http2), r.url+procedure, p.options...)
			streaming := strings.Contains(procedure, "Watch") || strings.Contains(procedure, "Query")
			var err error
			if streaming {
				var stream *connect.ServerStreamForClient[emptypb.Empty]
				stream, err = client.CallServerStream(t.Context(), connect.NewRequest(&emptypb.Empty{}))
				require.NoError(t, err)
				require.False(t, stream.Receive())
				err = stream.Err()
			} else {
				_, err = client.CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{}))
			}
			isRPC(t, err, want.code, want.text)
		}
	}
	r.logs.none(t, "panic in a handler")
}

// none checks that nothing was logged with a message.
func (l *logs) none(t testing.TB, message string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, record := range l.records {
		require.NotEqual(t, message, record.Message)
	}
}

// TestErrorsOfCalls shows the code of each kind of error, and that its cause stays inside.
func TestErrorsOfCalls(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	f := r.frontend(protocols[0])
	kind := func(k fault.Kind) error {
		return fmt.Errorf("create: %w", &fault.Error{Kind: k, Slug: "s", Detail: "the detail", Cause: errors.New("secret")})
	}
	const inside = "something went wrong in the service; its log says more under the request's ID"
	for _, c := range []struct {
		err  error
		code connect.Code
		text string
	}{
		{kind(fault.Invalid), connect.CodeInvalidArgument, "the detail"},
		{kind(fault.NotFound), connect.CodeNotFound, "the detail"},
		{kind(fault.Conflict), connect.CodeFailedPrecondition, "the detail"},
		{kind(fault.TooLarge), connect.CodeInvalidArgument, "the detail"},
		{kind(fault.StorageFull), connect.CodeResourceExhausted, "the detail"},
		{kind(fault.Unavailable), connect.CodeUnavailable, "the detail"},
		{kind(fault.Internal), connect.CodeInternal, inside},
		{matchmaking.ErrTicketExists, connect.CodeAlreadyExists, matchmaking.ErrTicketExists.Detail},
		{errors.New("secret"), connect.CodeInternal, inside},
	} {
		r.matches.set(func(m *matches) { m.fail = func() error { return c.err } })
		_, err := f.CreateTicket(t.Context(), connect.NewRequest(&openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}}))
		isRPC(t, err, c.code, c.text)
		_, err = f.DeleteTicket(t.Context(), connect.NewRequest(&openmatch.DeleteTicketRequest{TicketId: "t"}))
		isRPC(t, err, c.code, c.text)
	}
	r.matches.set(func(m *matches) { m.fail = func() error { panic("a fault") } })
	_, err := f.CreateTicket(t.Context(), connect.NewRequest(&openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}}))
	isRPC(t, err, connect.CodeInternal, inside)
	r.logs.await(t, func(l record) bool { return l.Message == "panic in a handler" && l.attrs["panic"] == "a fault" })
	r.matches.set(func(m *matches) { m.fail = nil })
	r.create(f, &openmatch.Ticket{})
}

// TestLargeTicket is refused before it is read to its end.
func TestLargeTicket(t *testing.T) {
	t.Parallel()
	r := startRPC(t, func(o *server.Options) { o.MaxBodyBytes = 1000 })
	ticket := &openmatch.Ticket{SearchFields: &openmatch.SearchFields{Tags: []string{strings.Repeat("x", 1000)}}}
	for _, p := range protocols {
		_, err := r.frontend(p).CreateTicket(t.Context(), connect.NewRequest(&openmatch.CreateTicketRequest{Ticket: ticket}))
		require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), "%s: %v", p.name, err)
	}
}

// TestMetricsOfCalls counts calls by their path and outcome.
func TestMetricsOfCalls(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	f := r.frontend(protocols[0])
	id := r.create(f, &openmatch.Ticket{}).GetId()
	_, err := r.get(f, "never-was")
	require.Error(t, err)
	_, err = r.get(f, id)
	require.NoError(t, err)
	recorder := httptest.NewRecorder()
	r.handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	page := recorder.Body.String()
	for _, line := range []string{
		`tidemark_http_requests_total{code="200",method="POST",route="/openmatch.FrontendService/CreateTicket"} 1`,
		`tidemark_http_requests_total{code="404",method="POST",route="/openmatch.FrontendService/GetTicket"} 1`,
		`tidemark_http_requests_total{code="200",method="POST",route="/openmatch.FrontendService/GetTicket"} 1`,
	} {
		require.Contains(t, page, "\n"+line)
	}
	logged := r.logs.await(t, func(l record) bool { return l.attrs["status"] == "404" })
	require.Equal(t, "/openmatch.FrontendService/GetTicket", logged.attrs["path"])
	require.Contains(t, logged.attrs["error"], "Ticket id: never-was not found")
}
