package server_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

func packed(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a := new(anypb.Any)
	require.NoError(t, anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}))
	return a
}

// TestTicketsComeBack: GetTicket and QueryTickets return a ticket of an Open Match client unchanged, byte for byte, and
// HTTP shows it as JSON.
func TestTicketsComeBack(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues("alone", `{"match":{"teams":9}}`))
	conn := servertest.Native.Dial(t, h.GRPCAddr, h.URL)
	frontend, ctx := openmatch.NewFrontendServiceClient(conn), metadata.AppendToOutgoingContext(t.Context(),
		"tidemark-queue", "alone")
	hero := &anypb.Any{TypeUrl: "mygame.example/mygame.Hero", Value: []byte{0, 255, 1}}
	odd := &openmatch.Ticket{
		SearchFields: &openmatch.SearchFields{DoubleArgs: map[string]float64{"nan": math.NaN(), "skill": 3}},
		Extensions: map[string]*anypb.Any{"nan": packed(t, structpb.NewNumberValue(math.NaN())), "none": {},
			"broken": {TypeUrl: "a/google.protobuf.BoolValue", Value: []byte{8}}},
		PersistentField: map[string]*anypb.Any{"hero": hero, "ttl": packed(t, wrapperspb.Int64(30e9))},
	}
	odd.ProtoReflect().SetUnknown([]byte{0xfa, 0x01, 0x01, 'x'})
	odd.SearchFields.ProtoReflect().SetUnknown([]byte{0x78, 0x07})
	sent := map[string][]byte{}
	for _, ticket := range []*openmatch.Ticket{odd, {}, {SearchFields: &openmatch.SearchFields{}},
		{PersistentField: map[string]*anypb.Any{"hero": hero}}} {
		made, err := frontend.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: ticket})
		require.NoError(t, err)
		got, err := frontend.GetTicket(ctx, &openmatch.GetTicketRequest{TicketId: made.GetId()})
		require.NoError(t, err)
		ticket.Id, ticket.CreateTime = made.GetId(), made.GetCreateTime()
		sent[made.GetId()] = packed(t, ticket).GetValue()
		require.Equal(t, sent[made.GetId()], packed(t, made).GetValue())
		require.Equal(t, sent[made.GetId()], packed(t, got).GetValue())
	}
	stream, err := openmatch.NewQueryServiceClient(conn).QueryTickets(ctx,
		&openmatch.QueryTicketsRequest{Pool: &openmatch.Pool{}})
	require.NoError(t, err)
	page, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, page.GetTickets(), len(sent))
	for _, ticket := range page.GetTickets() {
		require.Equal(t, sent[ticket.GetId()], packed(t, ticket).GetValue())
	}

	shown := h.Ticket(odd.GetId())
	require.EqualValues(t, 30_000, shown.LifeMillis, "the ttl of its persistent_field")
	require.JSONEq(t, `{"@type":"mygame.example/mygame.Hero","value":"AP8B"}`, string(shown.PersistentField["hero"]))
	require.JSONEq(t, `{"@type":"type.googleapis.com/google.protobuf.Value","value":"EQEAAAAAAPh/"}`,
		string(shown.Extensions["nan"]))
	require.Equal(t, "skill", shown.Statistics[0].Name)
}
