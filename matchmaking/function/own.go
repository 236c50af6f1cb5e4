package function

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tidwall/btree"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Everyone is the name of the pool that an own match function gets where its profile has none: all tickets.
const Everyone = "all"

// ErrProposal is the error of a match function that proposes what can't be a match.
var ErrProposal = errors.New("the match function's proposal can't be a match")

// ErrPanic is the error of a match function that panicked.
var ErrPanic = errors.New("the match function panicked")

// Own makes a Matcher of a match function. In each round in which the pools have changed since f last saw them, be it by
// what it proposed, f gets the tickets that pass each pool, the oldest first; without pools all of them, as the pool
// [Everyone]. So a round costs what waits.
//
// Proposals may share tickets with each other, which an evaluator settles; all of them are taken out. Each must have a
// ticket, only tickets that were handed to f, none of them twice, and an ID that matches [matchmaking.CheckMatchID] and
// that no other proposal of the round has; it gets one where it has none. Where one isn't so, none is proposed:
// ErrProposal. A panic of f is ErrPanic. After an error f is called again in the next round.
func Own(p matchmaking.Profile, f matchmaking.MatchFunction) matchmaking.Matcher {
	o := &own{profile: p, function: f, offered: make(map[string]*matchmaking.Ticket)}
	for _, pool := range p.Pools {
		o.pools = append(o.pools, newOwnPool(pool))
	}
	if len(p.Pools) == 0 {
		o.pools = []ownPool{newOwnPool(matchmaking.Pool{Name: Everyone})}
	}
	return o
}

type own struct {
	profile  matchmaking.Profile
	function matchmaking.MatchFunction
	pools    []ownPool
	offered  map[string]*matchmaking.Ticket // in a pool
	changed  bool                           // since f last saw the pools
	more     time.Time                      // when the last round was
}

type ownPool struct {
	matchmaking.Pool
	tickets *btree.BTreeG[*matchmaking.Ticket]
}

func newOwnPool(pool matchmaking.Pool) ownPool {
	return ownPool{Pool: pool, tickets: newTree(func(a, b *matchmaking.Ticket) bool { return older(a, b) < 0 })}
}

// Add is Matcher's.
func (o *own) Add(t *matchmaking.Ticket) {
	o.Remove(t.ID)
	for _, pool := range o.pools {
		if Pass(pool.Pool, t) {
			pool.tickets.Set(t)
			o.offered[t.ID] = t
			o.changed = true
		}
	}
}

// Remove is Matcher's.
func (o *own) Remove(id string) {
	t := o.offered[id]
	if t == nil {
		return
	}
	delete(o.offered, id)
	for _, pool := range o.pools {
		pool.tickets.Delete(t)
	}
	o.changed = true
}

// Match is Matcher's. Errors: f's own, ErrPanic and ErrProposal.
func (o *own) Match(ctx context.Context, now time.Time) ([]matchmaking.Proposal, error) {
	if !o.changed || len(o.offered) == 0 {
		o.changed = false
		return nil, nil
	}
	pools := make(map[string][]*matchmaking.Ticket, len(o.pools))
	for _, pool := range o.pools {
		pools[pool.Name] = pool.tickets.Items()
	}
	proposals, err := o.call(ctx, pools)
	if err != nil {
		return nil, fmt.Errorf("call the match function: %w", err)
	}
	checked, err := o.check(proposals)
	if err != nil {
		return nil, err
	}
	for _, p := range checked {
		for _, t := range p.Tickets() {
			o.Remove(t.ID)
		}
	}
	// One that proposes a few matches a call is called again for the rest.
	o.changed, o.more = len(checked) > 0, now
	return checked, nil
}

// call calls f. Where f panics that is an error, which ends neither the director nor the service.
func (o *own) call(ctx context.Context, pools map[string][]*matchmaking.Ticket) (proposals []matchmaking.Proposal, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()
	return o.function.Match(ctx, o.profile, pools)
}

// Next is Matcher's: at once, where the last round proposed something.
func (o *own) Next() time.Time {
	if !o.changed {
		return time.Time{}
	}
	return o.more
}

// check gives the proposals with the tickets as they are known here, and with IDs.
func (o *own) check(proposals []matchmaking.Proposal) ([]matchmaking.Proposal, error) {
	checked := make([]matchmaking.Proposal, len(proposals))
	ids := make(map[string]bool, len(proposals))
	for i, p := range proposals {
		if p.ID == "" {
			p.ID = newMatchID()
		}
		if err := matchmaking.CheckMatchID(p.ID); err != nil {
			return nil, fmt.Errorf("%w: proposal %d: %w", ErrProposal, i, err)
		}
		if ids[p.ID] {
			return nil, fmt.Errorf("%w: proposal %d: match %s is proposed twice", ErrProposal, i, p.ID)
		}
		ids[p.ID] = true
		teams, err := o.known(p.Teams)
		if err != nil {
			return nil, fmt.Errorf("%w: match %s: %w", ErrProposal, p.ID, err)
		}
		p.Teams = teams
		checked[i] = p
	}
	return checked, nil
}

// known gives the teams with the tickets as they are known here, whatever the function made of them.
func (o *own) known(teams [][]*matchmaking.Ticket) ([][]*matchmaking.Ticket, error) {
	used := make(map[string]bool)
	all := make([][]*matchmaking.Ticket, len(teams))
	for i, team := range teams {
		for _, t := range team {
			switch {
			case t == nil:
				return nil, fmt.Errorf("team %d has a ticket that is nil", i)
			case o.offered[t.ID] == nil:
				return nil, fmt.Errorf("ticket %s isn't among those that were given", t.ID)
			case used[t.ID]:
				return nil, fmt.Errorf("ticket %s is in it twice", t.ID)
			}
			used[t.ID] = true
			all[i] = append(all[i], o.offered[t.ID])
		}
	}
	if len(used) == 0 {
		return nil, errors.New("it has no ticket")
	}
	return all, nil
}
