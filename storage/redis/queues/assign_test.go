package queues

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Matches are divided at the limits of a call, and none is split.
func TestAssignParts(t *testing.T) {
	t.Parallel()
	sizes := func(tickets, bytes int) (m matchmaking.AssignMatch) {
		m.Record = make([]byte, bytes)
		m.Assignments = make([]matchmaking.AssignTicket, tickets)
		return m
	}
	for name, c := range map[string]struct {
		matches []matchmaking.AssignMatch
		want    []int // matches of each part
	}{
		"none":               {nil, nil},
		"one":                {[]matchmaking.AssignMatch{sizes(2, 10)}, []int{1}},
		"as many as fit":     {[]matchmaking.AssignMatch{sizes(200, 0), sizes(300, 0), sizes(1, 0)}, []int{2, 1}},
		"without tickets":    {make([]matchmaking.AssignMatch, assignTickets+1), []int{assignTickets, 1}},
		"as large as fit":    {[]matchmaking.AssignMatch{sizes(1, assignBytes/2), sizes(1, assignBytes/2), sizes(1, 1)}, []int{2, 1}},
		"one above a limit":  {[]matchmaking.AssignMatch{sizes(1, 0), sizes(assignTickets+1, 0), sizes(1, 0)}, []int{1, 1, 1}},
		"all above a limit":  {[]matchmaking.AssignMatch{sizes(1, assignBytes+1), sizes(1, assignBytes+1)}, []int{1, 1}},
		"the first is large": {[]matchmaking.AssignMatch{sizes(assignTickets+1, assignBytes+1)}, []int{1}},
	} {
		var got []int
		for _, part := range assignParts(c.matches) {
			got = append(got, len(part))
		}
		require.Equal(t, c.want, got, name)
	}
}
