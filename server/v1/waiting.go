package v1

import (
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking/insight"
	"github.com/tidemark-dev/tidemark/server/web"
	"github.com/tidemark-dev/tidemark/wire"
)

// waitingQuery reads waiting.
func waitingQuery(raw string) (waiting bool, err error) {
	err = web.ReadQuery(raw, waitingParameters, func(name, value string) error {
		if value != "true" && value != "false" {
			return web.RefuseParameter(name, fmt.Sprintf("waiting is %.64q, it must be true or false", value))
		}
		waiting = value == "true"
		return nil
	})
	return waiting, err
}

func waitingOf(r insight.Report) *wire.Waiting {
	answer := &wire.Waiting{
		Tickets: r.Waiting, Examined: r.Examined, Waits: longestWaits(r.Waits),
		Statistics: make([]wire.WaitingByRange, len(r.Statistics)),
		Longest:    make([]wire.LongWaitingTicket, len(r.Longest)),
	}
	for i, s := range r.Statistics {
		ranges := make([]wire.WaitingRange, len(s.Ranges))
		for j, one := range s.Ranges {
			ranges[j] = wire.WaitingRange{MinValue: one.Min, MaxValue: one.Max, Tickets: one.Tickets,
				Waits: longestWaits(one.Waits)}
		}
		answer.Statistics[i] = wire.WaitingByRange{Name: s.Name, Ranges: ranges}
	}
	for i, t := range r.Longest {
		answer.Longest[i] = wire.LongWaitingTicket{ID: t.ID, WaitMillis: t.Wait.Milliseconds(), Players: t.Players}
		if t.Acceptance != nil {
			counts := wire.Acceptance(*t.Acceptance)
			answer.Longest[i].Acceptance = &counts
		}
	}
	return answer
}

func longestWaits(w insight.Waits) wire.LongestWaits {
	ms := time.Duration.Milliseconds
	return wire.LongestWaits{Waits: wire.Waits{P50: ms(w.P50), P90: ms(w.P90), P99: ms(w.P99)}, Max: ms(w.Max)}
}
