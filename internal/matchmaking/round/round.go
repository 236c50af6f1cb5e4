// Package round forms matches of waiting tickets. A [Pool] holds the tickets in memory, and a [Round] forms matches of
// them: its result depends only on the pool, the time, and the answers of the match function and the evaluator. A
// [Schedule] decides when the next round is held. The package does no I/O and reads no clock.
package round

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Round forms matches of the tickets in a pool. A director then claims or assigns them in the storage.
type Round struct {
	Queue           string // its name, for the IDs of matches
	Matcher         matchmaking.Matcher
	Evaluator       matchmaking.Evaluator
	MatchTimeout    time.Duration
	EvaluateTimeout time.Duration
	MaxInMatches    int // tickets in matches that are being made
}

// Result is the result of a round.
type Result struct {
	Matches []matchmaking.Proposal // those that were chosen, with the tickets that the pool has
	Refused int                    // proposals that cannot be matches
	// Err is the error of the match function or of the evaluator; with matches it only describes the last refused
	// proposal.
	Err error
}

// Form asks the match function and the evaluator for matches at a time of the storage's clock. The tickets of the
// matches that it returns are in matches in the pool. Those of other proposals are available again. After an error
// without matches the pool is as before.
func (r *Round) Form(ctx context.Context, p *Pool, now time.Time) Result {
	proposals, err := r.propose(ctx, now)
	if err != nil || len(proposals) == 0 {
		return Result{Err: err}
	}
	taken := proposed(p, proposals)
	var f Result
	chosen, err := r.evaluate(ctx, f.withinLimit(proposals))
	if err != nil {
		f.Err = err
	}
	f.choose(p, chosen)
	returned := false
	for _, ticket := range taken {
		if p.Available(ticket.ID) != nil {
			r.Matcher.Add(ticket)
			returned = true
		}
	}
	if returned && len(f.Matches) > 0 { // without the tickets that were chosen there may be other matches
		p.SetChanged(true)
	}
	f.holdBack(p, r.MaxInMatches)
	return f
}

func (r *Round) propose(ctx context.Context, now time.Time) ([]matchmaking.Proposal, error) {
	ctx, cancel := context.WithTimeout(ctx, r.MatchTimeout)
	defer cancel()
	proposals, err := r.Matcher.Match(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("match function: %w", err)
	}
	r.name(proposals)
	return proposals, nil
}

func (r *Round) evaluate(ctx context.Context, proposals []matchmaking.Proposal) ([]matchmaking.Proposal, error) {
	if len(proposals) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.EvaluateTimeout)
	defer cancel()
	chosen, err := r.Evaluator.Evaluate(ctx, proposals)
	if err != nil {
		return nil, fmt.Errorf("evaluator: %w", err)
	}
	r.name(chosen)
	return chosen, nil
}

// name gives proposals without an ID one.
func (r *Round) name(proposals []matchmaking.Proposal) {
	for i := range proposals {
		if proposals[i].ID == "" {
			proposals[i].ID = matchmaking.NewID(r.Queue)
		}
	}
}

// proposed returns the pool's tickets that the match function has taken out, each once.
func proposed(p *Pool, proposals []matchmaking.Proposal) []*matchmaking.Ticket {
	var taken []*matchmaking.Ticket
	seen := map[string]bool{}
	for i := range proposals {
		for _, team := range proposals[i].Teams {
			for _, ticket := range team {
				if available := p.Available(ticket.ID); available != nil && !seen[ticket.ID] {
					seen[ticket.ID] = true
					taken = append(taken, available)
				}
			}
		}
	}
	return taken
}

func (f *Result) refuse(err error) {
	f.Refused++
	f.Err = err
}

// withinLimit returns the proposals that do not have too many tickets or players, and refuses the others.
func (f *Result) withinLimit(proposals []matchmaking.Proposal) []matchmaking.Proposal {
	within := proposals[:0:0]
	for _, p := range proposals {
		if err := checkSize(&p); err != nil {
			f.refuse(err)
			continue
		}
		within = append(within, p)
	}
	return within
}

// choose starts the matches of the chosen proposals in the pool. It refuses those that cannot be
// matches.
func (f *Result) choose(p *Pool, chosen []matchmaking.Proposal) {
	names := make(map[string]bool, len(chosen))
	for _, proposal := range chosen {
		m, err := check(p, proposal)
		if err == nil && names[m.ID] {
			err = fmt.Errorf("two matches have the ID %s", m.ID)
		}
		if err != nil {
			f.refuse(err)
			continue
		}
		names[m.ID] = true
		for _, t := range m.Tickets() {
			p.StartMatch(t.ID)
		}
		f.Matches = append(f.Matches, m)
	}
}

// holdBack makes the tickets of the last matches available again while more tickets are in matches than allowed. One
// match always stays.
func (f *Result) holdBack(p *Pool, maxInMatches int) {
	for len(f.Matches) > 1 && p.InMatches() > maxInMatches {
		last := f.Matches[len(f.Matches)-1]
		for _, t := range last.Tickets() {
			p.CancelMatch(t)
		}
		f.Matches = f.Matches[:len(f.Matches)-1]
	}
}

// check returns a proposal as a match of the pool's tickets. All of them must be available, and there must be at least
// one.
func check(pool *Pool, p matchmaking.Proposal) (matchmaking.Proposal, error) {
	if err := matchmaking.CheckMatchID(p.ID); err != nil {
		return p, err
	}
	if err := checkSize(&p); err != nil {
		return p, err // an evaluator can return proposals of its own
	}
	var members []*matchmaking.Ticket
	teams := make([][]*matchmaking.Ticket, len(p.Teams))
	for i, team := range p.Teams {
		for _, ticket := range team {
			available := pool.Available(ticket.ID)
			if available == nil {
				return p, fmt.Errorf("match %s has the ticket %s, which is not available", p.ID, ticket.ID)
			}
			if slices.Contains(members, available) {
				return p, fmt.Errorf("match %s has the ticket %s twice", p.ID, ticket.ID)
			}
			members, teams[i] = append(members, available), append(teams[i], available)
		}
	}
	if len(members) == 0 {
		return p, fmt.Errorf("match %s has no tickets", p.ID)
	}
	p.Teams = teams
	return p, nil
}

// checkSize returns an error if a proposal has more tickets or players than a match can have.
func checkSize(p *matchmaking.Proposal) error {
	tickets, players := 0, 0
	for _, team := range p.Teams {
		tickets += len(team)
		for _, ticket := range team {
			players += ticket.Party()
		}
	}
	switch {
	case tickets > matchmaking.MaxMatchTickets:
		return fmt.Errorf("match %q has %d tickets, at most %d are allowed", p.ID, tickets, matchmaking.MaxMatchTickets)
	case players > matchmaking.MaxMatchPlayers:
		return fmt.Errorf("match %q has %d players, at most %d are allowed", p.ID, players, matchmaking.MaxMatchPlayers)
	}
	return nil
}
