package grpc

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/grpcserver"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// Tickets creates, reads and removes tickets. Its errors are those of package matchmaking.
type Tickets interface {
	Create(ctx context.Context, n service.NewTicket) (t matchmaking.Ticket, created bool, err error)
	Token(ctx context.Context, t *matchmaking.Ticket) string
	Ticket(ctx context.Context, id string) (matchmaking.Ticket, error)
	Deindex(ctx context.Context, id string) error
	Delete(ctx context.Context, id string) error

	// Await waits for the assignment of a ticket, whose player counts as present meanwhile. Drain ends it.
	Await(ctx context.Context, id string) (*matchmaking.Assignment, error)
	// AwaitEnd returns nil when an assigned ticket of a queue can't be read any more.
	AwaitEnd(ctx context.Context, queue, id string) error
}

// Queues reads queues.
type Queues interface {
	// Waiting calls each with the waiting tickets of a queue, the oldest first, in batches.
	Waiting(ctx context.Context, r matchmaking.WaitingRequest, each func([]*matchmaking.Ticket) error) error
	Definitions() []matchmaking.Definition
}

// Backfills are the operations on backfills. Their errors are those of package matchmaking.
type Backfills interface {
	CreateBackfill(ctx context.Context, n service.NewBackfill) (matchmaking.Backfill, error)
	Backfill(ctx context.Context, id string) (matchmaking.Backfill, error)
	UpdateBackfill(ctx context.Context, id string, spec matchmaking.BackfillSpec) (matchmaking.Backfill, error)
	DeleteBackfill(ctx context.Context, id string) error
	AcknowledgeBackfill(ctx context.Context, id string, a matchmaking.Allocation) (matchmaking.Acknowledged, error)
	// EachBackfill calls each with the backfills of a queue, in batches.
	EachBackfill(ctx context.Context, queue string, each func([]*matchmaking.Backfill) error) error
}

// Director are the operations of users who direct queues.
type Director interface {
	// Fetch runs a match function, and calls each with the accepted matches, one after the other. The tickets of
	// matches for which each wasn't called, or returned an error, are released.
	Fetch(ctx context.Context, r backend.FetchRequest, each func(backend.Match) error) error
	// AssignTickets assigns tickets of a queue, and returns those that were not assigned.
	AssignTickets(ctx context.Context, queue string, groups []service.AssignmentGroup) ([]service.AssignmentFailure, error)
	ReleaseTickets(ctx context.Context, queue string, ids []string) error
	ReleaseAllTickets(ctx context.Context, queue string) error
}

// Options configures the services. All fields but Limits are required.
type Options struct {
	Router    *web.Router // counts and logs calls, reports readiness, and has the routes of AddRoutes
	Tickets   Tickets
	Queues    Queues
	Backfills Backfills
	Director  Director
	Limits    Limits
}

// Limits are the limits of clients' use of the services.
type Limits struct {
	MessageBytes int // of a message that a client sends; 0: DefaultMessageBytes
	SlowMessages int // that take longer than a second to arrive on the listener of gRPC; 0: DefaultSlowMessages
	Streams      int // open at a time on one connection; 0: DefaultStreams
	QueryPage    int // tickets, IDs or backfills in one message of an answer; 0: DefaultQueryPage
}

// Defaults of Limits.
const (
	DefaultMessageBytes = 1 << 20
	DefaultSlowMessages = 64
	DefaultStreams      = 250
	DefaultQueryPage    = 100    // each is encoded at once: larger ones keep other clients waiting
	LargestQueryPage    = 10_000 // as in Open Match
)

// checkedNames are the services of health checks. The empty one is the whole server.
var checkedNames = []string{
	"", openmatch.FrontendService_ServiceDesc.ServiceName, openmatch.BackendService_ServiceDesc.ServiceName,
	openmatch.QueryService_ServiceDesc.ServiceName,
	grpc_health_v1.Health_ServiceDesc.ServiceName,
}

// Services are the services. All methods may be called by several goroutines.
type Services struct {
	router     *web.Router
	limits     Limits
	served     []served
	native     func() *grpcserver.Server // on its own listener; created on first use, since it starts goroutines
	arrivals   grpcserver.Arrivals       // on the listener of its own
	onLoopback atomic.Bool               // the listener of its own is on a loopback address
	keepalives keepalives
	answers    answers // of queries
	fetched    answers // of FetchMatches
	queries    *slots
}

// served is a service and its description.
type served struct {
	desc *grpc.ServiceDesc
	impl any
}

// New returns the services. It must be called once per router.
func New(o Options) *Services {
	limits := Limits{
		MessageBytes: cmp.Or(o.Limits.MessageBytes, DefaultMessageBytes),
		Streams:      cmp.Or(o.Limits.Streams, DefaultStreams),
		QueryPage:    min(cmp.Or(o.Limits.QueryPage, DefaultQueryPage), LargestQueryPage),
	}
	s := &Services{
		router: o.Router, limits: limits, answers: defaultAnswers,
		fetched:    defaultFetchAnswers,
		keepalives: defaultKeepalives, queries: newSlots(o.Router.Draining),
		arrivals: grpcserver.Arrivals{
			Limit: arrivalLimit, Slow: arrivalSlow, MaxSlow: cmp.Or(o.Limits.SlowMessages, DefaultSlowMessages), Err: errSlow,
		},
	}
	s.served = []served{
		{&openmatch.FrontendService_ServiceDesc, &frontend{
			tickets: o.Tickets, backfills: o.Backfills, drained: o.Router.Draining,
		}},
		{&openmatch.BackendService_ServiceDesc, &backendService{
			director: o.Director, router: o.Router, answers: &s.fetched, fetches: &fetches{clients: map[string]fetching{}},
		}},
		{&openmatch.QueryService_ServiceDesc, &query{
			queues: o.Queues, backfills: o.Backfills, router: o.Router, page: limits.QueryPage, answers: &s.answers, slots: s.queries,
			turns: newTurns(int(web.Turns())),
		}},
		{&grpc_health_v1.Health_ServiceDesc, &grpcserver.Health{
			Names: checkedNames, Ready: o.Router.Ready, Draining: o.Router.Draining, Stopping: errDraining,
			Period: healthPeriod,
		}},
		{&reflectionv1.ServerReflection_ServiceDesc,
			newReflector[reflectionv1.ServerReflection_ServerReflectionInfoServer](s, reflection.NewServerV1)},
		{&reflectionv1alpha.ServerReflection_ServiceDesc,
			newReflector[reflectionv1alpha.ServerReflection_ServerReflectionInfoServer](s, reflection.NewServer)},
	}
	s.native = sync.OnceValue(func() *grpcserver.Server { return grpcserver.New(s.server(s.nativeOptions()...)) })
	return s
}

// WaitingQueries returns how many queries wait until others have ended.
func (s *Services) WaitingQueries() int { return s.queries.waiting() }

// GetServiceInfo returns the names of the services. It is for reflection.
func (s *Services) GetServiceInfo() map[string]grpc.ServiceInfo {
	infos := map[string]grpc.ServiceInfo{}
	for _, service := range s.served {
		infos[service.desc.ServiceName] = grpc.ServiceInfo{}
	}
	return infos
}

// server returns a server of all services for the listener of gRPC.
func (s *Services) server(options ...grpc.ServerOption) *grpc.Server {
	stray := &method{counts: s.router.Stray(), router: s.router}
	server := grpc.NewServer(append(options,
		grpc.ForceServerCodecV2(grpcserver.Codec()), grpc.MaxRecvMsgSize(s.limits.MessageBytes),
		grpc.MaxSendMsgSize(max(largestAnswer, s.limits.MessageBytes+largestOverhead)),
		grpc.UnknownServiceHandler(stray.stream(unknown)),
	)...)
	for _, service := range s.served {
		server.RegisterService(grpcserver.SendAnswers(s.around(service.desc, false)), service.impl)
	}
	return server
}

// around returns the description of a service whose calls are checked and counted. onRoutes is set for the HTTP port.
func (s *Services) around(desc *grpc.ServiceDesc, onRoutes bool) *grpc.ServiceDesc {
	return around(desc, func(path string) *method {
		m := &method{path: path, http: onRoutes, drained: s.router.Draining, router: s.router, need: needOf(path)}
		if !onRoutes {
			m.counts, m.arrivals, m.onLoopback = s.router.Procedure(path), &s.arrivals, &s.onLoopback
		}
		return m
	})
}
