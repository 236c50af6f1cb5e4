package function

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Everyone is the name of the pool that a match function receives if its profile has no pools: all tickets.
const Everyone = "all"

// ErrProposal means that a match function made an invalid proposal.
var ErrProposal = errors.New("the match function made an invalid proposal")

// ErrPanic means that a match function panicked.
var ErrPanic = errors.New("the match function panicked")

// Custom makes a Matcher of a match function. A round calls f if the pools have changed since the last call, be it by
// f's own proposals. f receives the tickets of each pool, the oldest first, or the pool [Everyone] if the profile has
// no pools. So the cost of a round grows with the number of waiting tickets.
//
// f receives limit tickets of each pool at most, unless that is 0. From a larger pool these are the tickets that it
// never received, and a random choice of others, a new one in each round; Next then asks for another round a second
// later at the latest.
//
// All proposed tickets are removed from the pools. Proposals may share tickets; an evaluator decides between them. The
// round fails with ErrProposal, and proposes nothing, unless each proposal
//   - has a ticket, and only tickets that f received, none of them twice;
//   - has an ID for which [matchmaking.CheckMatchID] returns nil and that no other proposal has. The director replaces
//     an empty ID.
//
// A panic of f becomes ErrPanic. After an error the next round calls f again.
func Custom(p matchmaking.Profile, f matchmaking.MatchFunction, limit int) matchmaking.Matcher {
	c := &custom{profile: p, function: f, limit: limit, offered: make(map[string]*matchmaking.Ticket)}
	for _, pool := range p.Pools {
		c.pools = append(c.pools, newCustomPool(pool))
	}
	if len(p.Pools) == 0 {
		c.pools = []customPool{newCustomPool(matchmaking.Pool{Name: Everyone})}
	}
	return c
}

type custom struct {
	profile  matchmaking.Profile
	function matchmaking.MatchFunction
	pools    []customPool
	offered  map[string]*matchmaking.Ticket // those in a pool
	limit    int                            // tickets of a pool in a call; 0: no limit
	changed  bool                           // the pools have changed since the last call
	partial  bool                           // the last call left tickets out
	last     time.Time                      // of the last call that succeeded
}

type customPool struct {
	matchmaking.Pool
	tickets *sample[*matchmaking.Ticket]
}

func newCustomPool(pool matchmaking.Pool) customPool {
	return customPool{Pool: pool,
		tickets: newSample(func(a, b *matchmaking.Ticket) bool { return matchmaking.CompareAge(a, b) < 0 })}
}

// Add implements Matcher.
func (c *custom) Add(t *matchmaking.Ticket) {
	c.Remove(t.ID)
	for _, pool := range c.pools {
		if Pass(pool.Pool, t) {
			pool.tickets.Add(t)
			c.offered[t.ID] = t
			c.changed = true
		}
	}
}

// Remove implements Matcher.
func (c *custom) Remove(id string) {
	t := c.offered[id]
	if t == nil {
		return
	}
	delete(c.offered, id)
	for _, pool := range c.pools {
		pool.tickets.Remove(t)
	}
	c.changed = true
}

// Match implements Matcher. It fails with the match function's error, ErrPanic or ErrProposal.
func (c *custom) Match(ctx context.Context, now time.Time) ([]matchmaking.Proposal, error) {
	if !c.changed && !c.partial || len(c.offered) == 0 {
		c.changed, c.partial = false, false
		return nil, nil
	}
	pools, partial := make(map[string][]*matchmaking.Ticket, len(c.pools)), false
	for _, pool := range c.pools {
		tickets, all := pool.tickets.Take(c.limit)
		pools[pool.Name], partial = tickets, partial || !all
	}
	given := c.offered
	if partial {
		given = byID(pools)
	}
	proposals, err := c.call(ctx, pools)
	if err != nil {
		return nil, fmt.Errorf("call the match function: %w", err)
	}
	checked, err := check(proposals, given)
	if err != nil {
		return nil, err
	}
	for _, pool := range c.pools {
		pool.tickets.Used()
	}
	for _, p := range checked {
		for _, t := range p.Tickets() {
			c.Remove(t.ID)
		}
	}
	// A function that proposes only some matches is called again for the others.
	c.changed, c.partial, c.last = len(checked) > 0, partial, now
	return checked, nil
}

// byID returns the tickets of pools by their IDs.
func byID(pools map[string][]*matchmaking.Ticket) map[string]*matchmaking.Ticket {
	all := make(map[string]*matchmaking.Ticket)
	for _, tickets := range pools {
		for _, t := range tickets {
			all[t.ID] = t
		}
	}
	return all
}

// call calls the match function, and returns a panic as an error, so that it doesn't end the service.
func (c *custom) call(ctx context.Context, pools map[string][]*matchmaking.Ticket) (proposals []matchmaking.Proposal,
	err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()
	return c.function.Match(ctx, c.profile, pools)
}

// others is how long after a call that left tickets out there is another one.
const others = time.Second

// Next implements Matcher: it asks for another round at once if the last one proposed something, and later if it left
// tickets out.
func (c *custom) Next() time.Time {
	switch {
	case c.changed:
		return c.last
	case c.partial:
		return c.last.Add(others)
	}
	return time.Time{}
}

// check validates proposals of a function that was given these tickets, and returns them with the tickets as Add
// received them.
func check(proposals []matchmaking.Proposal, given map[string]*matchmaking.Ticket) ([]matchmaking.Proposal, error) {
	checked := make([]matchmaking.Proposal, len(proposals))
	ids := make(map[string]bool, len(proposals))
	for i, p := range proposals {
		if p.ID != "" {
			if err := matchmaking.CheckMatchID(p.ID); err != nil {
				return nil, fmt.Errorf("%w: proposal %d: %w", ErrProposal, i, err)
			}
			if ids[p.ID] {
				return nil, fmt.Errorf("%w: proposal %d: duplicate match ID %s", ErrProposal, i, p.ID)
			}
			ids[p.ID] = true
		}
		teams, err := givenTickets(p.Teams, given)
		if err != nil {
			return nil, fmt.Errorf("%w: match %s: %w", ErrProposal, p.ID, err)
		}
		p.Teams = teams
		checked[i] = p
	}
	return checked, nil
}

// givenTickets returns the teams with the tickets as Add received them. The function may have changed its copies.
func givenTickets(teams [][]*matchmaking.Ticket, given map[string]*matchmaking.Ticket) (
	[][]*matchmaking.Ticket, error) {
	used := make(map[string]bool)
	all := make([][]*matchmaking.Ticket, len(teams))
	for i, team := range teams {
		for _, t := range team {
			switch {
			case t == nil:
				return nil, fmt.Errorf("team %d has a nil ticket", i)
			case given[t.ID] == nil:
				return nil, fmt.Errorf("ticket %s was not among those passed to the function", t.ID)
			case used[t.ID]:
				return nil, fmt.Errorf("duplicate ticket %s", t.ID)
			}
			used[t.ID] = true
			all[i] = append(all[i], given[t.ID])
		}
	}
	if len(used) == 0 {
		return nil, errors.New("no tickets")
	}
	return all, nil
}
