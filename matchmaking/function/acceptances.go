package function

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Acceptance counts the other tickets with which a ticket could be matched.
type Acceptance struct {
	Others     int // that ask for the same match: in the same pool, of the same teams
	Accepts    int // of those, that the ticket accepts
	AcceptedBy int // of those, that accept the ticket
	Candidates int // of those, with which it can be in a match of two
}

// question asks for the acceptances of the first tickets of a list.
type question struct {
	CriteriaOptions
	Tickets    []*matchmaking.Ticket
	Subjects   int                 // how many of the tickets
	Now        time.Time           // which decides how far criteria have widened
	Everyone   bool                // tickets accept each other, whatever their criteria are
	Acquainted func(a, b int) bool // reports whether two of the tickets, by their places, are in a pool together
}

// acceptances returns an Acceptance for each subject. It decides by what New's Matcher decides by. Its cost grows with
// subjects times tickets. It fails only with ctx.
func acceptances(ctx context.Context, q question) ([]Acceptance, error) {
	c := newCriteria(q.CriteriaOptions, defaultBounds)
	entries := make([]*entry, len(q.Tickets))
	forms := make([]match, len(q.Tickets))
	for i, t := range q.Tickets {
		entries[i], forms[i] = newEntry(t, uint64(i)), c.queue.With(t.NumTeams, t.TeamSize)
		if !q.Everyone {
			entries[i].widen(c.rules, q.Now)
		}
	}
	answers := make([]Acceptance, q.Subjects)
	for i := range answers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for j, other := range entries {
			if i != j && forms[i] == forms[j] && q.Acquainted(i, j) {
				answers[i].count(c.rules, entries[i], other)
			}
		}
	}
	return answers, nil
}

func (a *Acceptance) count(r *rules, e, other *entry) {
	a.Others++
	if e.accepts(other) {
		a.Accepts++
	}
	if other.accepts(e) {
		a.AcceptedBy++
	}
	if r.accept(e, other) || r.accept(other, e) {
		a.Candidates++
	}
}
