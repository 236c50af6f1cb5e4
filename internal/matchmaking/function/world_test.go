package function_test

import (
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// start is the creation time of a ticket at second 0.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// ticket returns a ticket that was created some seconds after start.
func ticket(id string, seconds float64) *matchmaking.Ticket {
	return &matchmaking.Ticket{ID: id, CreateTime: start.Add(time.Duration(seconds * float64(time.Second)))}
}

func stat(name string, value float64) matchmaking.Statistic {
	return matchmaking.Statistic{Name: name, Value: value}
}

func between(name string, low, high float64) matchmaking.Criterion {
	return matchmaking.Criterion{Name: name, MinValue: low, MaxValue: high}
}

// skilled returns a ticket with a skill that accepts others within width of it.
func skilled(id string, seconds, skill, width float64) *matchmaking.Ticket {
	t := ticket(id, seconds)
	t.Statistics = []matchmaking.Statistic{stat("skill", skill)}
	t.Criteria = []matchmaking.Criterion{between("skill", skill-width, skill+width)}
	return t
}

// ids returns the proposals' tickets, team by team: "a b | c d".
func ids(proposals []matchmaking.Proposal) []string {
	all := []string{}
	for _, p := range proposals {
		text := ""
		for i, team := range p.Teams {
			if i > 0 {
				text += " |"
			}
			for _, t := range team {
				text += " " + t.ID
			}
		}
		all = append(all, text[1:])
	}
	return all
}

func addAll(m matchmaking.Matcher, tickets ...*matchmaking.Ticket) {
	for _, t := range tickets {
		m.Add(t)
	}
}

func numbered(prefix string, n int) string { return fmt.Sprintf("%s%06d", prefix, n) }
