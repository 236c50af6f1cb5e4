package servertest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/assigner"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
)

// Duel is a queue of the configuration in tests.
const Duel = `{"assigner": {"connection": "127.0.0.1:7777", "secret": "hush"}, "reveal": "opponents", "maxTicketBytes": 2000}`

// WithQueues makes a harness with matchmaking, and these queues configured beside duel: names and definitions by turns.
func WithQueues(queues ...string) func(*Setup) {
	return func(s *Setup) {
		queues := append([]string{"duel", Duel}, queues...)
		for i := 0; i < len(queues); i += 2 {
			d, err := matchmaking.ParseDefinition(queues[i], []byte(queues[i+1]))
			if err != nil {
				panic(err)
			}
			s.queues = append(s.queues, d)
		}
	}
}

// newMatchmaking returns services that run until the test ends.
func newMatchmaking(t testing.TB, conn *redis.Conn, lookup matchmaking.Lookup, channels *channel.Service,
	with *Setup) *service.Service {
	t.Helper()
	s, err := service.New(service.Options{
		Store: queues.New(conn, queues.Options{}), Lookup: lookup, Channels: delivery.New(channels),
		Definitions: with.queues,
		ChannelTTL:  time.Hour, Token: with.Token, Logger: slog.New(slog.DiscardHandler),
		Build: func(d matchmaking.Definition) (matchmaking.Parts, error) {
			if d.ByUser() {
				return matchmaking.Parts{Evaluator: function.Decollide{}}, nil
			}
			a, err := assigner.New(d, nil)
			matcher := function.FirstCome(d.Match.Teams, d.Match.TeamSize)
			return matchmaking.Parts{Matcher: matcher, Evaluator: function.Decollide{}, Assigner: a}, err
		},
	})
	require.NoError(t, err)
	run(t, s.Run)
	return s
}

// newFetcher returns a synchronizer that runs until the test ends.
func newFetcher(t testing.TB, conn *redis.Conn, s *service.Service) *backend.Synchronizer {
	t.Helper()
	store, functions := queues.New(conn, queues.Options{}), callout.NewFunctions(nil)
	t.Cleanup(functions.Close)
	fetcher, err := backend.New(backend.Options{
		Store: store, Functions: functions,
		Evaluator: func(d matchmaking.Definition) (backend.Evaluator, error) { return callout.FetchEvaluator(d, nil) },
		Queue:     s.UserQueue, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	run(t, fetcher.Run)
	return fetcher
}

// run runs a service until the test ends.
func run(t testing.TB, service func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

// Create creates a ticket.
func (h *Harness) Create(body string) client.CreatedTicket {
	h.TB.Helper()
	got := h.Do("POST", "/v1/tickets", body)
	require.Equal(h.TB, http.StatusCreated, got.Status, "%s", got.Body)
	return Decode[client.CreatedTicket](got)
}

// Ticket reads a ticket.
func (h *Harness) Ticket(id string) wire.Ticket {
	h.TB.Helper()
	got := h.Do("GET", "/v1/tickets/"+id, "")
	require.Equal(h.TB, http.StatusOK, got.Status, "%s", got.Body)
	return Decode[wire.Ticket](got)
}

// Assignment waits for the assignment on a ticket's channel.
func (h *Harness) Assignment(c client.CreatedTicket) matchmaking.Assignment {
	h.TB.Helper()
	got := h.Do("GET", c.MessagesURL+"?wait=1m", "")
	require.Equal(h.TB, http.StatusOK, got.Status, "%s", got.Body)
	d := Decode[client.Delivery](got)
	require.Len(h.TB, d.Messages, 1)
	var a matchmaking.Assignment
	require.NoError(h.TB, json.Unmarshal(d.Messages[0].Content, &a))
	require.Equal(h.TB, matchmaking.MessagePrefix+a.MatchID, d.Messages[0].ID)
	return a
}
