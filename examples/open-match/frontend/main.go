// Command frontend is a game's frontend as programs of Open Match are: it creates a ticket for each player, polls the
// ticket until it has an assignment, and deletes it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tidemark-dev/tidemark/openmatch" // or open-match.dev/open-match/pkg/pb, unchanged
)

func main() {
	frontend := flag.String("frontend", "127.0.0.1:50504", "`address` of Open Match's frontend service")
	mode := flag.String("mode", "mode.duel", "mode of the game: mode.duel or mode.race")
	players := flag.Int("players", 10, "players, 100 ms after one another")
	flag.Parse()
	if err := run(context.Background(), *frontend, *mode, *players); err != nil {
		fmt.Fprintln(os.Stderr, "frontend:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, frontend, mode string, players int) error {
	conn, err := grpc.NewClient(frontend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	fe := pb.NewFrontendServiceClient(conn)
	play, ctx := errgroup.WithContext(ctx)
	for n := range players {
		play.Go(func() error {
			<-time.After(time.Duration(n) * 100 * time.Millisecond)
			return player(ctx, fe, mode)
		})
	}
	return play.Wait()
}

// player looks for a match, and prints where it is played.
func player(ctx context.Context, fe pb.FrontendServiceClient, mode string) error {
	ticket, err := fe.CreateTicket(ctx, &pb.CreateTicketRequest{
		Ticket: &pb.Ticket{SearchFields: &pb.SearchFields{Tags: []string{mode}}},
	})
	if err != nil {
		return fmt.Errorf("create a ticket: %w", err)
	}
	for next := time.Tick(time.Second); ticket.GetAssignment() == nil; {
		<-next
		if ticket, err = fe.GetTicket(ctx, &pb.GetTicketRequest{TicketId: ticket.GetId()}); err != nil {
			return fmt.Errorf("get the ticket: %w", err)
		}
	}
	fmt.Println(ticket.GetId(), ticket.GetAssignment().GetConnection())
	if _, err := fe.DeleteTicket(ctx, &pb.DeleteTicketRequest{TicketId: ticket.GetId()}); err != nil {
		return fmt.Errorf("delete the ticket: %w", err)
	}
	return nil
}
