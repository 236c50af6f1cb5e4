package service_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/assigner"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
)

// Embed matchmaking in a program with a Redis connection and channels, and match two players.
func Example() {
	var (
		ctx      context.Context
		conn     *redis.Conn
		channels *channel.Service
	)
	tickets := queues.New(conn, queues.Options{})
	s, err := service.New(service.Options{
		Store: tickets, Lookup: queues.NewLookup(conn), Channels: delivery.New(channels),
		Build: func(d matchmaking.Definition) (matchmaking.Parts, error) {
			servers, err := assigner.New(d, nil)
			matcher := function.FirstCome(d.Match.Teams, d.Match.TeamSize)
			return matchmaking.Parts{Matcher: matcher, Evaluator: function.Decollide{}, Assigner: servers}, err
		},
		ChannelTTL: 15 * time.Minute, Logger: slog.Default(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = s.Run(ctx) }()
	for _, id := range []string{"ann", "ben"} {
		if _, _, err := s.Create(ctx, service.NewTicket{ID: id}); err != nil {
			fmt.Println(err)
		}
	}
	d, err := channels.Fetch(ctx, channel.Query{
		Channel: matchmaking.ChannelOf("ann"), Subscriber: matchmaking.Subscriber, Wait: time.Minute,
	})
	fmt.Println(d.Messages, err)
}
