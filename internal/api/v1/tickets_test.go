package v1

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// oneTicket is a service with one ticket, which counts heartbeats.
type oneTicket struct {
	Tickets
	status matchmaking.Status
	beats  int
}

func (o *oneTicket) Ticket(context.Context, string) (matchmaking.Ticket, error) {
	return matchmaking.Ticket{ID: "t", Status: o.status}, nil
}

func (o *oneTicket) Attend(context.Context, string) (stop func()) { return func() { o.beats++ } }

// TestReadingATicketIsAHeartbeat checks that a read of a waiting ticket is a heartbeat.
func TestReadingATicketIsAHeartbeat(t *testing.T) {
	t.Parallel()
	for status, beats := range map[matchmaking.Status]int{
		matchmaking.Searching: 1, matchmaking.Pending: 1, matchmaking.MatchFound: 0, matchmaking.Cancelled: 0,
		matchmaking.Expired: 0,
	} {
		o := &oneTicket{status: status}
		r := web.New(web.Options{Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
		registerMatchmaking(web.API{Router: r, Fail: web.Fail}, Options{Tickets: o})
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/v1/tickets/t", nil))
		require.Equal(t, 200, answer.Code)
		require.Equal(t, beats, o.beats, status)
	}
}
