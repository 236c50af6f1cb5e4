package grpc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// backendService is openmatch.BackendService.
type backendService struct {
	openmatch.UnimplementedBackendServiceServer

	director Director
	router   *web.Router
	answers  *answers
	fetches  *fetches
}

// Limits on calls of FetchMatches in progress.
const (
	maxFetches       = 1000
	maxFetchesClient = maxFetches / 4 // of one client
	// of the profiles of all of them, which are in memory meanwhile
	maxFetchBytes       = 64 << 20
	maxFetchBytesClient = maxFetchBytes / 4
)

// errFetches is returned if too many calls of FetchMatches are in progress.
var errFetches = status.Error(codes.ResourceExhausted,
	"too many calls of FetchMatches are in progress; try again when some have ended")

// defaultFetchAnswers limits the time of directors to read matches. A director may allocate a game server before it
// reads the next match; after that time the match's tickets wouldn't be held any more in most queues.
var defaultFetchAnswers = answers{limit: time.Hour, stall: time.Minute}

// FetchMatches runs the match function of the request, and sends the accepted matches.
func (b *backendService) FetchMatches(
	request *openmatch.FetchMatchesRequest, stream grpc.ServerStreamingServer[openmatch.FetchMatchesResponse],
) error {
	ctx := stream.Context()
	switch {
	case request.GetConfig() == nil:
		return badRequest(".config is required")
	case request.GetProfile() == nil:
		return badRequest(".profile is required")
	}
	kind, seen := functionKinds[request.GetConfig().GetType()]
	if !seen {
		return badRequest("provided match function type is not supported")
	}
	profile, err := proto.Marshal(request.GetProfile())
	if err != nil {
		return badRequest(".profile: " + err.Error())
	}
	client := clientName(ctx, b.router)
	release, err := b.fetches.acquire(client, len(profile))
	if err != nil {
		return err
	}
	defer release()
	send, stop := b.answers.begin(ctx)
	defer stop()
	return b.director.Fetch(ctx, backend.FetchRequest{
		Queue: queueOf(ctx), Profile: profile, Trace: tracing.Of(ctx),
		Function: backend.Function{
			Kind: kind, Host: request.GetConfig().GetHost(), Port: int(request.GetConfig().GetPort()),
		},
	}, func(m backend.Match) error {
		match, err := matchMessage(m)
		if err != nil {
			return err
		}
		return send(func() error { return stream.Send(&openmatch.FetchMatchesResponse{Match: match}) })
	})
}

var functionKinds = map[openmatch.FunctionConfig_Type]backend.FunctionKind{
	openmatch.FunctionConfig_GRPC: backend.FunctionGRPC, openmatch.FunctionConfig_REST: backend.FunctionREST,
}

// matchMessage returns a match as its function proposed it. A backfill that was created with it has its ID.
func matchMessage(m backend.Match) (*openmatch.Match, error) {
	match := new(openmatch.Match)
	if err := proto.Unmarshal(m.Content, match); err != nil {
		return nil, fmt.Errorf("decode a match: %w", err)
	}
	if b, created := match.GetBackfill(), m.Created; b != nil && created != nil {
		b.Id, b.CreateTime, b.Generation = created.ID, timestamppb.New(created.CreateTime), created.Generation
	}
	return match, nil
}

// AssignTickets assigns the tickets of each group.
func (b *backendService) AssignTickets(
	ctx context.Context, request *openmatch.AssignTicketsRequest,
) (*openmatch.AssignTicketsResponse, error) {
	if err := checkGroups(request.GetAssignments()); err != nil {
		return nil, err
	}
	groups := make([]service.AssignmentGroup, 0, len(request.GetAssignments()))
	for _, g := range request.GetAssignments() {
		groups = append(groups, service.AssignmentGroup{
			Tickets: g.GetTicketIds(), Allocation: convert.ToAllocation(g.GetAssignment()),
		})
	}
	failed, err := b.director.AssignTickets(ctx, queueOf(ctx), groups)
	if err != nil {
		return nil, err
	}
	answer := new(openmatch.AssignTicketsResponse)
	for _, f := range failed {
		failure := &openmatch.AssignmentFailure{TicketId: f.TicketID}
		if f.NotFound {
			failure.Cause = openmatch.AssignmentFailure_TICKET_NOT_FOUND
		}
		answer.Failures = append(answer.Failures, failure)
	}
	return answer, nil
}

// checkGroups refuses the same groups as Open Match, with the same texts.
func checkGroups(groups []*openmatch.AssignmentGroup) error {
	seen := map[string]bool{}
	for _, g := range groups {
		if g.GetAssignment() == nil {
			return badRequest("AssignmentGroup.Assignment is required")
		}
		for _, id := range g.GetTicketIds() {
			if seen[id] {
				return badRequest(fmt.Sprintf("Ticket id %s is assigned multiple times in one assign tickets call", id))
			}
			seen[id] = true
		}
	}
	if len(groups) > 0 && len(seen) == 0 {
		return badRequest("AssignmentGroupTicketIds is empty")
	}
	return nil
}

// ReleaseTickets makes tickets that were fetched available again. Others are ignored.
func (b *backendService) ReleaseTickets(
	ctx context.Context, request *openmatch.ReleaseTicketsRequest,
) (*openmatch.ReleaseTicketsResponse, error) {
	if len(request.GetTicketIds()) == 0 {
		return new(openmatch.ReleaseTicketsResponse), nil
	}
	if err := b.director.ReleaseTickets(ctx, queueOf(ctx), request.GetTicketIds()); err != nil {
		return nil, err
	}
	return new(openmatch.ReleaseTicketsResponse), nil
}

// ReleaseAllTickets makes all fetched tickets of a queue available again.
func (b *backendService) ReleaseAllTickets(
	ctx context.Context, _ *openmatch.ReleaseAllTicketsRequest,
) (*openmatch.ReleaseAllTicketsResponse, error) {
	if err := b.director.ReleaseAllTickets(ctx, queueOf(ctx)); err != nil {
		return nil, err
	}
	return new(openmatch.ReleaseAllTicketsResponse), nil
}

// fetches are the calls of FetchMatches in progress. Its method may be called by several goroutines.
type fetches struct {
	mu      sync.Mutex
	all     fetching
	clients map[string]fetching
}

// fetching is calls in progress.
type fetching struct {
	calls int
	bytes int // of their profiles
}

// with returns the calls with some more.
func (f fetching) with(calls, bytes int) fetching { return fetching{f.calls + calls, f.bytes + bytes} }

// acquire counts a call of a client, whose profile has size bytes. release must be called afterwards. Errors:
// errFetches.
func (f *fetches) acquire(client string, size int) (release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, own := f.all.with(1, size), f.clients[client].with(1, size)
	if all.calls > maxFetches || all.bytes > maxFetchBytes || own.calls > maxFetchesClient ||
		own.bytes > maxFetchBytesClient {
		return nil, errFetches
	}
	f.all, f.clients[client] = all, own
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all = f.all.with(-1, -size)
		if f.clients[client] = f.clients[client].with(-1, -size); f.clients[client].calls == 0 {
			delete(f.clients, client)
		}
	}, nil
}
