// Command player looks for a duel with the Go client, as player.sh does with curl.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/tidemark-dev/tidemark/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := play(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "player:", err)
		os.Exit(1)
	}
}

func play(ctx context.Context) error {
	server := os.Getenv("TIDEMARK_SERVER")
	if server == "" {
		server = "http://127.0.0.1:8080"
	}
	c, err := client.New(server)
	if err != nil {
		return err
	}
	ticket, err := c.CreateTicket(ctx, client.NewTicket{Queue: "duel"})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "looking for an opponent with ticket", ticket.ID)
	a, err := c.AwaitAssignment(ctx, ticket.ID)
	if ctx.Err() != nil { // the player stops waiting; this fails if there is a match already
		return c.CancelTicket(context.WithoutCancel(ctx), ticket.ID)
	}
	if err != nil {
		return err
	}
	fmt.Printf("match %s: play at %s in team %d\n", a.MatchID, a.Connection, a.Team)
	return nil
}
