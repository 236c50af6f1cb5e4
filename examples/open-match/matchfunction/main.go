// Command matchfunction is a match function as programs of Open Match are: it queries the tickets and backfills of each
// pool of a profile, and proposes matches of two players.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	pb "github.com/tidemark-dev/tidemark/openmatch" // or open-match.dev/open-match/pkg/pb, unchanged
)

const (
	playersPerMatch = 2
	openSlotsKey    = "open-slots" // of a backfill: the number of players that its match still lacks
)

func main() {
	query := flag.String("query", "127.0.0.1:50503", "`address` of Open Match's query service")
	listen := flag.String("listen", "127.0.0.1:50502", "`address` to listen on")
	patience := flag.Duration("patience", 2*time.Second, "how long a player waits for a full match, at least")
	flag.Parse()
	if err := run(*query, *listen, *patience); err != nil {
		fmt.Fprintln(os.Stderr, "match function:", err)
		os.Exit(1)
	}
}

func run(query, listen string, patience time.Duration) error {
	conn, err := grpc.NewClient(query, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen) //nolint:noctx // as in programs of Open Match
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pb.RegisterMatchFunctionServer(server, &function{query: pb.NewQueryServiceClient(conn), patience: patience})
	fmt.Println("the match function listens on", listener.Addr())
	return server.Serve(listener)
}

type function struct {
	pb.UnimplementedMatchFunctionServer

	query    pb.QueryServiceClient
	patience time.Duration
}

// Run sends the proposals for a profile.
func (f *function) Run(r *pb.RunRequest, stream pb.MatchFunction_RunServer) error {
	for _, pool := range r.GetProfile().GetPools() {
		matches, err := f.matches(stream.Context(), r.GetProfile(), pool)
		if err != nil {
			return err
		}
		for _, m := range matches {
			if err := stream.Send(&pb.RunResponse{Proposal: m}); err != nil {
				return err
			}
		}
	}
	return nil
}

// matches first fills the open slots of backfills, then pairs players, and begins a match with one player, and with a
// backfill for another, if that player has waited.
func (f *function) matches(ctx context.Context, p *pb.MatchProfile, pool *pb.Pool) (matches []*pb.Match, err error) {
	tickets, err := f.tickets(ctx, pool)
	if err != nil {
		return nil, err
	}
	backfills, err := f.backfills(ctx, pool)
	if err != nil {
		return nil, err
	}
	propose := func(n int, backfill *pb.Backfill) *pb.Match {
		m := &pb.Match{
			MatchId:       fmt.Sprintf("%s-%d-%d", pool.GetName(), time.Now().UnixNano(), len(matches)),
			MatchProfile:  p.GetName(),
			MatchFunction: "pairs",
			Tickets:       tickets[:n],
			Backfill:      backfill,
		}
		tickets = tickets[n:]
		matches = append(matches, m)
		return m
	}
	for _, b := range backfills {
		open, err := openSlots(b)
		if err != nil {
			return nil, err
		}
		if n := min(open, len(tickets)); n > 0 {
			if err := setOpenSlots(b, open-n); err != nil {
				return nil, err
			}
			propose(n, b)
		}
	}
	for len(tickets) >= playersPerMatch {
		propose(playersPerMatch, nil)
	}
	if len(tickets) > 0 && time.Since(tickets[0].GetCreateTime().AsTime()) >= f.patience {
		b := &pb.Backfill{SearchFields: tickets[0].GetSearchFields()}
		if err := setOpenSlots(b, playersPerMatch-len(tickets)); err != nil {
			return nil, err
		}
		propose(len(tickets), b).AllocateGameserver = true
	}
	return matches, nil
}

func (f *function) tickets(ctx context.Context, pool *pb.Pool) (found []*pb.Ticket, err error) {
	stream, err := f.query.QueryTickets(ctx, &pb.QueryTicketsRequest{Pool: pool})
	for err == nil {
		var page *pb.QueryTicketsResponse
		page, err = stream.Recv()
		found = append(found, page.GetTickets()...)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return found, err
}

func (f *function) backfills(ctx context.Context, pool *pb.Pool) (found []*pb.Backfill, err error) {
	stream, err := f.query.QueryBackfills(ctx, &pb.QueryBackfillsRequest{Pool: pool})
	for err == nil {
		var page *pb.QueryBackfillsResponse
		page, err = stream.Recv()
		found = append(found, page.GetBackfills()...)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return found, err
}

func openSlots(b *pb.Backfill) (int, error) {
	var slots wrapperspb.Int32Value
	if err := b.GetExtensions()[openSlotsKey].UnmarshalTo(&slots); err != nil {
		return 0, fmt.Errorf("backfill %s: extension %s: %w", b.GetId(), openSlotsKey, err)
	}
	return int(slots.GetValue()), nil
}

func setOpenSlots(b *pb.Backfill, n int) error {
	slots, err := anypb.New(wrapperspb.Int32(int32(n)))
	if err != nil {
		return err
	}
	if b.Extensions == nil {
		b.Extensions = map[string]*anypb.Any{}
	}
	b.Extensions[openSlotsKey] = slots
	return nil
}
