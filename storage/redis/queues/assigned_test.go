package queues

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

func TestNotificationsOfAssignments(t *testing.T) { //nolint:paralleltest // it counts allocations
	at := func(us int64) time.Time { return time.UnixMicro(us) }
	for text, want := range map[string][]matchmaking.TicketEnd{
		"a 5 2 {}":                  {{ID: "a", Created: at(5), Content: "{}"}},
		"a 5 2 {}b 6 0 c 7 -1 ":     {{ID: "a", Created: at(5), Content: "{}"}, {ID: "b", Created: at(6)}, {ID: "c", Created: at(7), Gone: true}},
		"a 5 3 1 2b 6 0 ":           {{ID: "a", Created: at(5), Content: "1 2"}, {ID: "b", Created: at(6)}},
		"":                          nil,
		"a":                         nil,
		"a 5 2":                     nil,
		"a 5 2 x":                   nil,
		" 5 0 ":                     nil,
		"a x 0 ":                    nil,
		"a 5 x ":                    nil,
		"a 5 -2 ":                   nil,
		"a 5 99999999999999999999 ": nil,
	} {
		var ends []matchmaking.TicketEnd
		err := parseAssigned(text, func(e matchmaking.TicketEnd) { ends = append(ends, e) })
		require.Equal(t, want, ends, text)
		if want == nil {
			require.ErrorIs(t, err, errAssigned, text)
		} else {
			require.NoError(t, err, text)
		}
	}
	long := strings.Repeat("01M8F2V4PCQ2Z6C7XQ8S5T1N3A.duel 1704067200000000 2 {}", 1000)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if parseAssigned(long, func(matchmaking.TicketEnd) {}) != nil {
			panic("malformed")
		}
	}))
}

// After a notification that can't be read, what listeners know is in doubt.
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

func FuzzAssigned(f *testing.F) {
	f.Add("a 5 2 {}b 6 0 c 7 -1 ")
	f.Fuzz(func(t *testing.T, text string) {
		read := 0
		err := parseAssigned(text, func(e matchmaking.TicketEnd) { read += len(e.ID) + len(e.Content) + 5 })
		require.LessOrEqual(t, read, len(text))
		if err != nil {
			require.ErrorIs(t, err, errAssigned)
		}
	})
}
