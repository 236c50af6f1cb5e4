// Package simulation matches recorded tickets by the definition of a queue, in virtual time and in memory. Start from
// [Parse] or [New].
package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/builder"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/insight"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/round"
)

// Queue is a queue whose matches can be simulated.
type Queue struct{ definition matchmaking.Definition }

// Parse reads a queue's definition from JSON: that of PUT /v1/queues/{queue}, or an object that has it as its
// definition, as in the answer. Errors: that it isn't one, and those of New.
func Parse(text []byte) (Queue, error) {
	var answer struct {
		Definition json.RawMessage `json:"definition"`
	}
	if json.Unmarshal(text, &answer) == nil && answer.Definition != nil {
		text = answer.Definition
	}
	const name = "simulated"
	d, err := matchmaking.ParseDefinition(name, text)
	if err != nil {
		return Queue{}, err
	}
	return New(d)
}

// New returns a queue with a definition. The error is that other services decide about the queue's matches, which can't
// be simulated.
func New(d matchmaking.Definition) (Queue, error) {
	usual := matchmaking.DefaultDefinition(d.Name)
	switch {
	case d.ByUser():
		return Queue{}, errors.New("a queue with director: user can't be simulated: the service forms no matches of it")
	case d.Match.Function != matchmaking.MatchFirstCome && d.Match.Function != matchmaking.MatchCriteria:
		return Queue{}, fmt.Errorf("the match function %s can't be simulated, only first-come and criteria can",
			d.Match.Function)
	case d.Evaluator.Kind != usual.Evaluator.Kind:
		return Queue{}, fmt.Errorf("the evaluator %s can't be simulated, only %s can", d.Evaluator.Kind,
			usual.Evaluator.Kind)
	}
	d.Assigner = usual.Assigner // nothing is allocated
	return Queue{definition: d}, nil
}

func (q Queue) build() (matchmaking.Parts, error) {
	return builder.Builder(slog.New(slog.DiscardHandler), nil)(q.definition)
}

// Result is the outcome of the tickets.
type Result struct {
	Tickets int
	Matches int
	Matched int           // tickets; all others expired
	Waits   insight.Waits // of the tickets that were matched
	Fitness insight.Percentiles[float64]
}

// Run matches tickets, the oldest first, as the director of a server without load does: a round runs as soon as a
// ticket is created or criteria widen. Matches are assigned at once. A ticket without a Life lives for the queue's
// TicketTTL, which is also the maximum; no ticket is cancelled. The same tickets always have the same result. Run fails
// only with ctx.
func (q Queue) Run(ctx context.Context, tickets []*matchmaking.Ticket) (Result, error) {
	p, err := q.build()
	if err != nil {
		return Result{}, err
	}
	s := newSimulation(q.definition, p, tickets)
	for {
		now, ok := s.next()
		if !ok {
			break
		}
		s.pass(now)
		if err := s.match(ctx, now); err != nil {
			return Result{}, err
		}
	}
	s.result.Tickets = len(tickets)
	s.result.Waits, s.result.Fitness = insight.PercentilesOf(s.waits), insight.PercentilesOf(s.fitness)
	return s.result, nil
}

type queueSimulation struct {
	matcher matchmaking.Matcher
	round   round.Round
	pool    *round.Pool
	coming  []*matchmaking.Ticket // not created yet, by creation
	going   []*matchmaking.Ticket // not expired yet, by expiry
	waits   []time.Duration
	fitness []float64
	result  Result
}

func newSimulation(d matchmaking.Definition, p matchmaking.Parts, tickets []*matchmaking.Ticket) *queueSimulation {
	const patience = time.Minute // for one round
	s := &queueSimulation{
		pool: round.NewPool(p.Matcher), matcher: p.Matcher,
		round: round.Round{
			Queue: d.Name, Matcher: p.Matcher, Evaluator: p.Evaluator, MatchTimeout: patience,
			EvaluateTimeout: patience, MaxInMatches: math.MaxInt,
		},
	}
	for _, t := range tickets {
		copied := *t // its life depends on the definition
		if copied.Life <= 0 || copied.Life > d.TicketTTL.Std() {
			copied.Life = d.TicketTTL.Std()
		}
		copied.Expires = copied.CreateTime.Add(copied.Life)
		s.coming = append(s.coming, &copied)
	}
	s.going = slices.Clone(s.coming)
	slices.SortStableFunc(s.going, func(a, b *matchmaking.Ticket) int { return a.Expires.Compare(b.Expires) })
	return s
}

// next returns when something happens next.
func (s *queueSimulation) next() (at time.Time, ok bool) {
	earliest := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if len(s.coming) > 0 {
		earliest(s.coming[0].CreateTime)
	}
	if len(s.going) > 0 {
		earliest(s.going[0].Expires)
	}
	if widens := s.matcher.Next(); !widens.IsZero() {
		earliest(widens)
	}
	return at, ok
}

// pass expires and adds tickets, up to a time.
func (s *queueSimulation) pass(now time.Time) {
	for len(s.going) > 0 && !s.going[0].Expires.After(now) {
		if t := s.going[0]; s.pool.Available(t.ID) == t { // it isn't matched, and its ID isn't another ticket's
			s.pool.Remove(t.ID)
		}
		s.going = s.going[1:]
	}
	for len(s.coming) > 0 && !s.coming[0].CreateTime.After(now) {
		s.pool.Add(s.coming[0], time.Time{})
		s.coming = s.coming[1:]
	}
}

// match runs rounds until there are no more matches at a time.
func (s *queueSimulation) match(ctx context.Context, now time.Time) error {
	for {
		due := s.matcher.Next()
		if !s.pool.Changed() && (due.IsZero() || due.After(now)) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		s.pool.SetChanged(false)
		formed := s.round.Form(ctx, s.pool, now)
		if err := ctx.Err(); err != nil {
			return err // which ended the round
		}
		for _, m := range formed.Matches {
			s.assign(m, now)
		}
	}
}

func (s *queueSimulation) assign(m matchmaking.Proposal, now time.Time) {
	tickets := m.Tickets()
	for _, t := range tickets {
		s.waits = append(s.waits, now.Sub(t.CreateTime))
		s.pool.Finish(t)
	}
	s.fitness = append(s.fitness, max(0, -m.Score)) // 0 in place of -0
	s.result.Matches++
	s.result.Matched += len(tickets)
}
