package grpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/grpc"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// director is a director controlled by the test. A nil function succeeds.
type director struct {
	fetch  func(ctx context.Context, r backend.FetchRequest, each func(backend.Match) error) error
	assign func(queue string, groups []service.AssignmentGroup) ([]service.AssignmentFailure, error)
	queue  string   // of the last release
	ids    []string // of the last release; nil: all
}

func (d *director) Fetch(ctx context.Context, r backend.FetchRequest, each func(backend.Match) error) error {
	if d.fetch == nil {
		return nil
	}
	return d.fetch(ctx, r, each)
}

func (d *director) AssignTickets(
	_ context.Context, queue string, groups []service.AssignmentGroup,
) ([]service.AssignmentFailure, error) {
	if d.assign == nil {
		return nil, nil
	}
	return d.assign(queue, groups)
}

func (d *director) ReleaseTickets(_ context.Context, queue string, ids []string) error {
	d.queue, d.ids = queue, ids
	return nil
}

func (d *director) ReleaseAllTickets(_ context.Context, queue string) error {
	d.queue, d.ids = queue, nil
	return nil
}

func (h *harness) backend(p servertest.Protocol) openmatch.BackendServiceClient {
	return openmatch.NewBackendServiceClient(h.dial(p))
}

// fetch fetches matches, and returns them with the error at the end.
func fetch(
	ctx context.Context, t testing.TB, b openmatch.BackendServiceClient, request *openmatch.FetchMatchesRequest,
) (all []*openmatch.Match, err error) {
	t.Helper()
	stream, err := b.FetchMatches(ctx, request)
	require.NoError(t, err)
	for {
		answer, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, err
		}
		all = append(all, answer.GetMatch())
	}
}

func aFetch() *openmatch.FetchMatchesRequest {
	return &openmatch.FetchMatchesRequest{
		Config:  &openmatch.FunctionConfig{Host: "function", Port: 7, Type: openmatch.FunctionConfig_REST},
		Profile: &openmatch.MatchProfile{Name: "p", Pools: []*openmatch.Pool{{Name: "all"}}},
	}
}

// TestFetchMatches: a match reaches its director while the function runs, as its function proposed it, over every
// protocol. The error follows the matches.
func TestFetchMatches(t *testing.T) {
	t.Parallel()
	h := start(t)
	proposal := &openmatch.Match{MatchId: "any string", MatchProfile: "p", AllocateGameserver: true,
		Tickets: []*openmatch.Ticket{{Id: "t"}}, Backfill: &openmatch.Backfill{Id: "b.q", Generation: 7}}
	creating := &openmatch.Match{MatchId: "2", Backfill: &openmatch.Backfill{Generation: 9}}
	for _, p := range servertest.Protocols {
		if p.Name == servertest.Native.Name { // JSON has no unknown fields
			proposal.ProtoReflect().SetUnknown([]byte{0xa0, 0x06, 1})
		} else {
			proposal.ProtoReflect().SetUnknown(nil)
		}
		first := make(chan struct{})
		h.matches.director.fetch = func(_ context.Context, r backend.FetchRequest, each func(backend.Match) error) error {
			require.Equal(t, backend.Function{Kind: backend.FunctionREST, Host: "function", Port: 7}, r.Function)
			require.Equal(t, "q", r.Queue)
			profile := new(openmatch.MatchProfile)
			require.NoError(t, proto.Unmarshal(r.Profile, profile))
			require.True(t, proto.Equal(aFetch().GetProfile(), profile))
			for i, m := range []*openmatch.Match{proposal, creating} {
				content, err := proto.Marshal(m)
				require.NoError(t, err)
				sent := backend.Match{Content: content}
				if i == 1 {
					<-first
					sent.Created = &matchmaking.Backfill{ID: "new.q", Generation: 1, CreateTime: time.Unix(1, 0)}
				}
				if err := each(sent); err != nil {
					return err
				}
			}
			return &backend.Failure{Code: int(codes.Unknown), Text: "the function's own", Detail: "what it answered"}
		}
		stream, err := h.backend(p).FetchMatches(h.inQueue("q"), aFetch())
		require.NoError(t, err)
		answer, err := stream.Recv()
		require.NoError(t, err)
		require.True(t, proto.Equal(proposal, answer.GetMatch()), "%v", answer)
		close(first)
		answer, err = stream.Recv()
		require.NoError(t, err)
		b := answer.GetMatch().GetBackfill()
		require.Equal(t, "new.q", b.GetId())
		require.Equal(t, int64(1), b.GetGeneration())
		require.Equal(t, time.Unix(1, 0).UTC(), b.GetCreateTime().AsTime())
		_, err = stream.Recv()
		isError(t, err, codes.Unknown, "the function's own")
	}
}

// TestRefusedFetches checks the errors of Open Match, and those of the domain.
func TestRefusedFetches(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := h.backend(servertest.Native)
	fails := func(change func(*openmatch.FetchMatchesRequest), code codes.Code, text string) {
		t.Helper()
		request := aFetch()
		change(request)
		_, err := fetch(t.Context(), t, b, request)
		isError(t, err, code, text)
	}
	fails(func(r *openmatch.FetchMatchesRequest) { r.Config, r.Profile = nil, nil }, codes.InvalidArgument,
		".config is required")
	fails(func(r *openmatch.FetchMatchesRequest) { r.Profile = nil }, codes.InvalidArgument, ".profile is required")
	fails(func(r *openmatch.FetchMatchesRequest) { r.Config.Type = 9 }, codes.InvalidArgument,
		"provided match function type is not supported")
	for code, err := range map[codes.Code]error{
		codes.FailedPrecondition: matchmaking.ErrQueueDirector,
		codes.Unavailable:        fault.ErrUnavailable,
		codes.Canceled:           &backend.Failure{Code: int(codes.Canceled), Text: "the function was cancelled"},
	} {
		h.matches.director.fetch = func(context.Context, backend.FetchRequest, func(backend.Match) error) error { return err }
		fails(func(*openmatch.FetchMatchesRequest) {}, code, err.Error())
	}
}

// TestCancelledFetches: the end of a call reaches the domain, over every protocol.
func TestCancelledFetches(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, p := range servertest.Protocols {
		started, ended := make(chan struct{}), make(chan struct{})
		h.matches.director.fetch = func(ctx context.Context, _ backend.FetchRequest, _ func(backend.Match) error) error {
			close(started)
			<-ctx.Done()
			close(ended)
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-started
			cancel()
		}()
		_, err := fetch(ctx, t, h.backend(p), aFetch())
		require.Error(t, err)
		<-ended
	}
}

// TestUnreadMatches: a director that doesn't read its matches holds up its own call only, which ends.
func TestUnreadMatches(t *testing.T) {
	t.Parallel()
	for _, p := range []servertest.Protocol{servertest.Native, servertest.GRPCGo} {
		h := start(t, func(s *grpc.Services) { grpc.LimitFetches(s, time.Minute, 50*time.Millisecond) })
		large, err := proto.Marshal(&openmatch.Match{MatchId: strings.Repeat("x", 64<<10)})
		require.NoError(t, err)
		ended := make(chan error, 1)
		h.matches.director.fetch = func(_ context.Context, _ backend.FetchRequest, each func(backend.Match) error) error {
			for {
				if err := each(backend.Match{Content: large}); err != nil {
					ended <- err
					return err
				}
			}
		}
		_, err = h.backend(p).FetchMatches(t.Context(), aFetch())
		require.NoError(t, err)
		require.Error(t, <-ended)
	}
}

// TestManyFetches: a client has a limited number of calls in progress, and others have the rest.
func TestManyFetches(t *testing.T) {
	t.Parallel()
	h := start(t)
	const fetches = 250
	started, leave := make(chan struct{}), make(chan struct{})
	h.matches.director.fetch = func(_ context.Context, _ backend.FetchRequest, _ func(backend.Match) error) error {
		started <- struct{}{}
		<-leave
		return nil
	}
	ended := make(chan error, fetches)
	for i := range fetches {
		if i%maxStreams == 0 {
			b := h.backend(servertest.Native)
			for range min(maxStreams, fetches-i) {
				go func() {
					_, err := fetch(t.Context(), t, b, aFetch())
					ended <- err
				}()
			}
		}
		<-started
	}
	_, err := fetch(t.Context(), t, h.backend(servertest.Native), aFetch())
	isError(t, err, codes.ResourceExhausted,
		"too many calls of FetchMatches are in progress; try again when some have ended")
	close(leave)
	for range fetches {
		require.NoError(t, <-ended)
	}
}

// TestAssignTickets checks the conversion of groups and failures, and the errors of Open Match.
func TestAssignTickets(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.matches.director.assign = func(queue string, groups []service.AssignmentGroup) ([]service.AssignmentFailure, error) {
		require.Equal(t, "q", queue)
		require.Equal(t, []string{"a", "b"}, groups[0].Tickets)
		require.Equal(t, "h:1", groups[0].Connection)
		require.JSONEq(t, `{"@type":"type.googleapis.com/google.protobuf.Value","value":1}`, string(groups[0].Extensions["x"]))
		require.Empty(t, groups[1].Tickets)
		return []service.AssignmentFailure{{TicketID: "b", NotFound: true}, {TicketID: "c"}}, nil
	}
	group := func(a *openmatch.Assignment, ids ...string) *openmatch.AssignmentGroup {
		return &openmatch.AssignmentGroup{Assignment: a, TicketIds: ids}
	}
	to := &openmatch.Assignment{Connection: "h:1"}
	to.Extensions = map[string]*anypb.Any{"x": packed(t, structpb.NewNumberValue(1))}
	for _, p := range servertest.Protocols {
		answer, err := h.backend(p).AssignTickets(h.inQueue("q"), &openmatch.AssignTicketsRequest{
			Assignments: []*openmatch.AssignmentGroup{group(to, "a", "b"), group(&openmatch.Assignment{})},
		})
		require.NoError(t, err)
		require.True(t, proto.Equal(&openmatch.AssignTicketsResponse{Failures: []*openmatch.AssignmentFailure{
			{TicketId: "b", Cause: openmatch.AssignmentFailure_TICKET_NOT_FOUND}, {TicketId: "c"},
		}}, answer), "%v", answer)
	}
	for text, groups := range map[string][]*openmatch.AssignmentGroup{
		"AssignmentGroup.Assignment is required":                            {group(to, "a"), group(nil, "b")},
		"Ticket id a is assigned multiple times in one assign tickets call": {group(to, "a"), group(to, "b", "a")},
		"AssignmentGroupTicketIds is empty":                                 {group(to)},
	} {
		_, err := h.backend(servertest.Native).AssignTickets(t.Context(), &openmatch.AssignTicketsRequest{Assignments: groups})
		isError(t, err, codes.InvalidArgument, text)
	}
	h.matches.director.assign = nil
	_, err := h.backend(servertest.Native).AssignTickets(t.Context(), &openmatch.AssignTicketsRequest{})
	require.NoError(t, err)
}

// TestJSONOfBackend checks Open Match's JSON paths, and the releases.
func TestJSONOfBackend(t *testing.T) {
	t.Parallel()
	h := start(t)
	for code, end := range map[codes.Code]string{
		codes.Unknown:           `{"grpc_code":2,"http_code":502,"message":"the function's own","http_status":"Bad Gateway"}`,
		codes.ResourceExhausted: `{"grpc_code":8,"http_code":503,"message":"the function's own","http_status":"Service Unavailable"}`,
	} {
		h.matches.director.fetch = func(_ context.Context, _ backend.FetchRequest, each func(backend.Match) error) error {
			content, err := proto.Marshal(&openmatch.Match{MatchId: "m"})
			require.NoError(t, err)
			require.NoError(t, each(backend.Match{Content: content}))
			return &backend.Failure{Code: int(code), Text: "the function's own"}
		}
		got := h.text("POST", "/v1/backendservice/matches:fetch",
			`{"config":{"host":"function","port":7,"type":"GRPC"},"profile":{"name":"p"}}`)
		require.Equal(t, `{"result":{"match":{"match_id":"m"}}}`+"\n"+`{"error":`+end+"}\n", got)
	}
	require.Empty(t, h.answers(200, "POST", "/v1/backendservice/tickets:assign", `{}`))
	require.Empty(t, h.answers(200, "POST", "/v1/backendservice/tickets:release", `{"ticket_ids":["a","b"]}`))
	require.Equal(t, []string{"a", "b"}, h.matches.director.ids)
	require.Empty(t, h.answers(200, "POST", "/v1/backendservice/tickets:releaseall", `{}`))
	require.Nil(t, h.matches.director.ids)
	require.Equal(t, "q", h.matches.director.queue)
	require.Empty(t, h.answers(200, "POST", "/v1/backendservice/tickets:release", `{}`), "there is nothing to release")
	require.Equal(t, ".config is required", h.answers(400, "POST", "/v1/backendservice/matches:fetch", `{}`)["error"].(map[string]any)["message"])
}

// TestDirectorsOfOtherQueues: who may direct one queue can't direct another.
func TestDirectorsOfOtherQueues(t *testing.T) {
	t.Parallel()
	h, p := closed(t)
	p.add(t, "arena", apiKey("arena"), `[{"actions":["direct"],"queues":["arena"]}]`)
	b := h.backend(servertest.Native)
	for queue, want := range map[string]codes.Code{"arena": codes.OK, "other": codes.PermissionDenied} {
		ctx := h.as("arena", "tidemark-queue", queue)
		_, err := fetch(ctx, t, b, aFetch())
		require.Equal(t, want, status.Code(err))
		_, err = b.AssignTickets(ctx, &openmatch.AssignTicketsRequest{})
		require.Equal(t, want, status.Code(err))
		_, err = b.ReleaseTickets(ctx, &openmatch.ReleaseTicketsRequest{TicketIds: []string{"a"}})
		require.Equal(t, want, status.Code(err))
		_, err = b.ReleaseAllTickets(ctx, &openmatch.ReleaseAllTicketsRequest{})
		require.Equal(t, want, status.Code(err))
	}
}
