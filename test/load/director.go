package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// Director is a connection to all services of Open Match: also to those that directors, match functions and game
// servers call.
type Director struct {
	*Frontend
	backend openmatch.BackendServiceClient
	query   openmatch.QueryServiceClient
}

// DialDirector returns a connection to host:port, without TLS.
func DialDirector(address string, options ...grpc.DialOption) (*Director, error) {
	f, err := DialFrontend(address, options...)
	if err != nil {
		return nil, err
	}
	return &Director{
		Frontend: f, backend: openmatch.NewBackendServiceClient(f.connection),
		query: openmatch.NewQueryServiceClient(f.connection),
	}, nil
}

// Fetch fetches the matches that a match function proposes for a queue, and calls each with each match.
func (d *Director) Fetch(ctx context.Context, queue string, f *Pairs, each func(*openmatch.Match) error) error {
	ctx, cancel := context.WithCancel(InQueue(ctx, queue))
	defer cancel()
	stream, err := d.backend.FetchMatches(ctx, &openmatch.FetchMatchesRequest{
		Config: f.config, Profile: &openmatch.MatchProfile{Name: queue},
	})
	for err == nil {
		var fetched *openmatch.FetchMatchesResponse
		if fetched, err = stream.Recv(); err == nil {
			err = each(fetched.GetMatch())
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("fetch matches: %w", err)
}

// Assign assigns the tickets of matches. The connection of an assignment is the match's ID.
func (d *Director) Assign(ctx context.Context, queue string, matches []*openmatch.Match) error {
	request := &openmatch.AssignTicketsRequest{}
	for _, m := range matches {
		group := &openmatch.AssignmentGroup{Assignment: &openmatch.Assignment{Connection: m.GetMatchId()}}
		for _, t := range m.GetTickets() {
			group.TicketIds = append(group.TicketIds, t.GetId())
		}
		request.Assignments = append(request.Assignments, group)
	}
	if _, err := d.backend.AssignTickets(InQueue(ctx, queue), request); err != nil {
		return fmt.Errorf("assign tickets: %w", err)
	}
	return nil
}

// CreateBackfill creates a backfill, and returns its ID.
func (d *Director) CreateBackfill(ctx context.Context, queue string, b *openmatch.Backfill) (string, error) {
	created, err := d.client.CreateBackfill(InQueue(ctx, queue), &openmatch.CreateBackfillRequest{Backfill: b})
	if err != nil {
		return "", fmt.Errorf("create a backfill: %w", err)
	}
	return created.GetId(), nil
}

// Acknowledge acknowledges a backfill.
func (d *Director) Acknowledge(ctx context.Context, backfill, connection string) error {
	_, err := d.client.AcknowledgeBackfill(ctx, &openmatch.AcknowledgeBackfillRequest{
		BackfillId: backfill, Assignment: &openmatch.Assignment{Connection: connection},
	})
	if err != nil {
		return fmt.Errorf("acknowledge a backfill: %w", err)
	}
	return nil
}

// Pairs is a match function that proposes matches of two tickets, in the order in which a query returns them. It
// proposes each match as soon as it has its tickets. The name of the profile is the queue.
type Pairs struct {
	openmatch.UnimplementedMatchFunctionServer

	config    *openmatch.FunctionConfig
	directors []*Director // queries are sent to one after the other
	limit     int
	calls     atomic.Int64
	server    *grpc.Server
	serving   sync.WaitGroup
}

// ServePairs serves the match function on a port of 127.0.0.1. It proposes at most so many matches in a call; 0: no
// limit. The caller must call Close at the end, and may close the directors then.
func ServePairs(ctx context.Context, directors []*Director, limit int) (*Pairs, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().(*net.TCPAddr) //nolint:forcetypeassert // that of a TCP listener
	p := &Pairs{
		config:    &openmatch.FunctionConfig{Host: "127.0.0.1", Port: int32(address.Port), Type: openmatch.FunctionConfig_GRPC},
		directors: directors, limit: limit, server: grpc.NewServer(),
	}
	openmatch.RegisterMatchFunctionServer(p.server, p)
	p.serving.Go(func() { _ = p.server.Serve(l) }) // until Close
	return p, nil
}

// Close cancels the calls in progress.
func (p *Pairs) Close() {
	p.server.Stop()
	p.serving.Wait()
}

// Run proposes matches.
func (p *Pairs) Run(r *openmatch.RunRequest, stream openmatch.MatchFunction_RunServer) error {
	ctx, cancel := context.WithCancel(InQueue(stream.Context(), r.GetProfile().GetName()))
	defer cancel()
	d := p.directors[int(p.calls.Add(1))%len(p.directors)]
	tickets, err := d.query.QueryTickets(ctx, &openmatch.QueryTicketsRequest{Pool: &openmatch.Pool{}})
	var first *openmatch.Ticket
	for proposed := 0; err == nil; {
		var page *openmatch.QueryTicketsResponse
		page, err = tickets.Recv()
		for _, t := range page.GetTickets() {
			if first == nil {
				first = t
				continue
			}
			m := &openmatch.Match{MatchId: id.New(), Tickets: []*openmatch.Ticket{first, t}}
			if err := stream.Send(&openmatch.RunResponse{Proposal: m}); err != nil {
				return err
			}
			first = nil
			if proposed++; proposed == p.limit {
				return nil
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
