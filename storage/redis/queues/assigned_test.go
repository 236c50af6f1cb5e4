package queues

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// After an unreadable notification, listeners are told of an interruption.
func TestMalformedNotificationOfAssignments(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		calls := make(chan string, 10)
		t.Cleanup(h.ListenAssigned(h.Name, matchmaking.AssignedListener{
			Confirmed:   func() { calls <- "confirmed" },
			Interrupted: func() { calls <- "interrupted" },
			Ended:       func(e matchmaking.TicketEnd) { calls <- strings.Clone(e.ID) },
		}))
		require.Equal(t, "confirmed", <-calls)
		for _, text := range []string{"a 5 2 {}b", "what?"} {
			publish := h.direct.B().Spublish().Channel(h.k().assigned()).Message(text).Build()
			require.NoError(t, h.direct.Do(context.WithoutCancel(t.Context()), publish).Error())
		}
		for _, want := range []string{"a", "interrupted", "confirmed", "interrupted", "confirmed"} {
			require.Equal(t, want, <-calls)
		}
	})
}
