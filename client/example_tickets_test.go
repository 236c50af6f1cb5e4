package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/client"
)

func ExampleClient_AwaitAssignment() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	// Two players, each of which would be a program of its own.
	var players sync.WaitGroup
	places := make(chan string, 2)
	for range 2 {
		players.Go(func() {
			ticket, err := c.CreateTicket(ctx, client.NewTicket{Queue: "duel"})
			if err != nil {
				panic(err)
			}
			assignment, err := c.AwaitAssignment(ctx, ticket.ID)
			if err != nil {
				panic(err)
			}
			places <- assignment.Connection
		})
	}
	players.Wait()
	fmt.Println(<-places)
	fmt.Println(<-places)
	// Output:
	// 127.0.0.1:7777
	// 127.0.0.1:7777
}

func ExampleClient_CreateTicket() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	ann := client.NewTicket{
		Queue: "duel",
		ID:    "ann-17", // the same ID is one ticket, however often it is asked for
		TicketSpec: client.TicketSpec{
			SearchFields: client.SearchFields{Tags: []string{"eu"}},
			Criteria:     []client.Criterion{{Name: "skill", MinValue: 1000, MaxValue: 1500}},
			Statistics:   []client.Statistic{{Name: "skill", Value: 1200}},
		},
		TTL: 5 * time.Minute,
	}
	for range 2 {
		ticket, err := c.CreateTicket(ctx, ann)
		if err != nil {
			panic(err)
		}
		fmt.Println(ticket.Status, ticket.Channel, ticket.Subscriber)
	}
	// Output:
	// SEARCHING ticket.ann-17 player
	// SEARCHING ticket.ann-17 player
}

func ExampleClient_CancelTicket() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	ticket, err := c.CreateTicket(ctx, client.NewTicket{})
	if err != nil {
		panic(err)
	}
	switch err := c.CancelTicket(ctx, ticket.ID); {
	case errors.Is(err, client.ErrTicketMatched):
		fmt.Println("too late: there is a match")
	case err != nil:
		panic(err)
	default:
		fmt.Println("cancelled")
	}
	// Output:
	// cancelled
}

func ExampleClient_Ticket() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	_, err := c.Ticket(ctx, "nobody")
	fmt.Println(errors.Is(err, client.ErrNoTicket))
	// Output:
	// true
}

func ExampleClient_PutQueue() {
	ctx := context.Background()
	c, err := client.New(newWorld() + "/admin") // the admin address, such as http://127.0.0.1:8081
	if err != nil {
		panic(err)
	}
	defer c.Close()

	queue, err := c.PutQueue(ctx, "fives", []byte(`{"match":{"teams":2,"teamSize":5}}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(queue.Name)
	queues, err := c.Queues(ctx)
	if err != nil {
		panic(err)
	}
	for _, q := range queues {
		fmt.Println("-", q.Name)
	}
	if err := c.DeleteQueue(ctx, "fives"); err != nil {
		panic(err)
	}
	// Output:
	// fives
	// - default
	// - duel
	// - fives
}

func ExampleClient_DescribeQueue() {
	ctx := context.Background()
	c := connect()
	defer c.Close()

	if _, err := c.CreateTicket(ctx, client.NewTicket{Queue: "duel"}); err != nil {
		panic(err)
	}
	queue, err := c.DescribeQueue(ctx, "duel")
	if err != nil {
		panic(err)
	}
	fmt.Println(queue.Name, queue.Tickets.Searching, queue.Tickets.MatchFound)
	// Output:
	// duel 1 0
}
