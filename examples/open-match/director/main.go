// Command director is a director as programs of Open Match are: it fetches the matches of each profile, starts a game
// server for each, and assigns its address to the players.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tidemark-dev/tidemark/openmatch" // or open-match.dev/open-match/pkg/pb, unchanged
)

func main() {
	backend := flag.String("backend", "127.0.0.1:50505", "`address` of Open Match's backend service")
	frontend := flag.String("frontend", "127.0.0.1:50504", "`address` of the frontend service, for game servers")
	function := flag.String("function", "127.0.0.1:50502", "`address` of the match function, as Open Match reaches it")
	every := flag.Duration("every", time.Second, "pause between two fetches")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *backend, *frontend, *function, *every); err != nil {
		fmt.Fprintln(os.Stderr, "director:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, backend, frontend, function string, every time.Duration) error {
	onBackend, err := grpc.NewClient(backend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	onFrontend, err := grpc.NewClient(frontend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(function)
	if err != nil {
		return err
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return fmt.Errorf("port of the match function: %w", err)
	}
	d := director{
		backend:  pb.NewBackendServiceClient(onBackend),
		frontend: pb.NewFrontendServiceClient(onFrontend),
		function: &pb.FunctionConfig{Host: host, Port: int32(number), Type: pb.FunctionConfig_GRPC},
	}
	defer d.servers.Wait()
	for next := time.Tick(every); ; {
		select {
		case <-next:
		case <-ctx.Done():
			return nil
		}
		var wg sync.WaitGroup
		for _, p := range profiles() {
			wg.Go(func() {
				if err := d.direct(ctx, p); err != nil {
					fmt.Fprintln(os.Stderr, "fetch the matches of", p.GetName()+":", err)
				}
			})
		}
		wg.Wait()
	}
}

// profiles has one profile for each mode of the game. Tickets have the mode as a tag.
func profiles() (profiles []*pb.MatchProfile) {
	for _, mode := range []string{"mode.duel", "mode.race"} {
		profiles = append(profiles, &pb.MatchProfile{
			Name:  mode,
			Pools: []*pb.Pool{{Name: mode, TagPresentFilters: []*pb.TagPresentFilter{{Tag: mode}}}},
		})
	}
	return profiles
}

type director struct {
	backend  pb.BackendServiceClient
	frontend pb.FrontendServiceClient
	function *pb.FunctionConfig
	servers  sync.WaitGroup
}

// direct fetches the matches of a profile, and makes them.
func (d *director) direct(ctx context.Context, p *pb.MatchProfile) error {
	stream, err := d.backend.FetchMatches(ctx, &pb.FetchMatchesRequest{Config: d.function, Profile: p})
	for err == nil {
		var fetched *pb.FetchMatchesResponse
		if fetched, err = stream.Recv(); err == nil {
			err = d.makeMatch(ctx, fetched.GetMatch())
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// makeMatch assigns the tickets of a match. Those of a match with a backfill are assigned by its game server.
func (d *director) makeMatch(ctx context.Context, m *pb.Match) error {
	if b := m.GetBackfill(); b != nil {
		if m.GetAllocateGameserver() {
			d.servers.Go(func() { d.serve(ctx, b.GetId(), "game-server-of-"+b.GetId()+":7777") })
		}
		return nil // a match with an old backfill: its game server is running
	}
	group := &pb.AssignmentGroup{Assignment: &pb.Assignment{Connection: "game-server-of-" + m.GetMatchId() + ":7777"}}
	for _, t := range m.GetTickets() {
		group.TicketIds = append(group.TicketIds, t.GetId())
	}
	answer, err := d.backend.AssignTickets(ctx, &pb.AssignTicketsRequest{Assignments: []*pb.AssignmentGroup{group}})
	if err != nil {
		return fmt.Errorf("assign the tickets of %s: %w", m.GetMatchId(), err)
	}
	for _, f := range answer.GetFailures() {
		fmt.Println("not assigned:", f.GetTicketId(), f.GetCause())
	}
	fmt.Println("made match", m.GetMatchId())
	return nil
}

// serve does what a game server does for its backfill: acknowledging it keeps the backfill alive, and assigns the
// players that have been matched with it. It ends when the match is full.
func (d *director) serve(ctx context.Context, backfill, connection string) {
	next := time.Tick(time.Second)
	for players := map[string]bool{}; len(players) < 2; {
		answer, err := d.frontend.AcknowledgeBackfill(ctx, &pb.AcknowledgeBackfillRequest{
			BackfillId: backfill, Assignment: &pb.Assignment{Connection: connection},
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "acknowledge backfill", backfill+":", err)
			return
		}
		for _, t := range answer.GetTickets() {
			players[t.GetId()] = true
		}
		<-next
	}
	if _, err := d.frontend.DeleteBackfill(ctx, &pb.DeleteBackfillRequest{BackfillId: backfill}); err != nil {
		fmt.Fprintln(os.Stderr, "delete backfill", backfill+":", err)
		return
	}
	fmt.Println("filled the match of backfill", backfill)
}
