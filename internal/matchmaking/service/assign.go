package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// MaxAssigned is the largest number of tickets of a call of AssignTickets.
const MaxAssigned = matchmaking.MaxUserMatchTickets

// AssignmentGroup is tickets with the same assignment: a match, or a part of one.
type AssignmentGroup struct {
	Tickets []string
	matchmaking.Allocation
}

// AssignmentFailure is a ticket that AssignTickets could not assign.
type AssignmentFailure struct {
	TicketID string
	NotFound bool // it isn't in the queue: it was cancelled, has expired, or never existed; else it is in another match
}

// AssignTickets assigns tickets of a queue that is directed by its user, whether they were handed out or not. An empty
// name means matchmaking.DefaultQueue. The tickets of a group get one match. Tickets that can't be assigned are
// returned, in the order of the groups; the others are assigned. A ticket that is assigned with the same connection and
// extensions already is not a failure, so that a repetition completes a call that has failed. No ticket is in two
// groups, or twice in one. Errors: ErrNoQueue, ErrQueueDirector, fault.SlugInvalidTicket for more than MaxAssigned
// tickets or matchmaking.MaxAssignmentBytes, and the store's, after which some tickets may be assigned.
func (s *Service) AssignTickets(ctx context.Context, queue string, groups []AssignmentGroup) ([]AssignmentFailure,
	error) {
	q, err := s.userQueue(ctx, queue)
	if err != nil {
		return nil, err
	}
	a := assigning{Service: s, queue: q, token: id.New(), failed: map[string]AssignmentFailure{}}
	if err := a.readTickets(ctx, groups); err != nil {
		return nil, err
	}
	for len(a.remaining) > 0 {
		if err := a.assignRemaining(ctx); err != nil {
			return nil, fmt.Errorf("assign tickets of queue %s: %w", q.Name, err)
		}
	}
	var failures []AssignmentFailure
	for _, g := range groups {
		for _, id := range g.Tickets {
			if f, ok := a.failed[id]; ok {
				failures = append(failures, f)
			}
		}
	}
	return failures, nil
}

// assigning is a call of AssignTickets. The store assigns all tickets of a match or none of them, so those matches of
// which some tickets can't be assigned are repeated without these.
type assigning struct {
	*Service
	queue     *queue
	token     string
	remaining []*assignedGroup // those that aren't assigned yet
	failed    map[string]AssignmentFailure
}

// assignedGroup is the match of a group.
type assignedGroup struct {
	matchmaking.Proposal
	place matchmaking.Allocation
}

// lookupsAtOnce is the number of tickets with caller-chosen IDs that are looked up at once.
const lookupsAtOnce = 32

// readTickets reads the epochs of the groups' tickets. It leaves out those that aren't in the queue.
func (a *assigning) readTickets(ctx context.Context, groups []AssignmentGroup) error {
	total := 0
	for i := range groups {
		total += len(groups[i].Tickets)
	}
	if total > MaxAssigned {
		return matchmaking.InvalidTicket("assignments", "a call has at most %d tickets, not %d", MaxAssigned, total)
	}
	owners := make([]matchmaking.Owner, total)
	lookups, looking := errgroup.WithContext(ctx)
	lookups.SetLimit(lookupsAtOnce)
	at := 0
	for i := range groups {
		for _, id := range groups[i].Tickets {
			owner := &owners[at]
			at++
			if queue, ok := matchmaking.QueueOf(id); ok {
				owner.Queue = queue
				continue
			}
			lookups.Go(func() (err error) {
				if *owner, err = a.ownerOf(looking, id); errors.Is(err, matchmaking.ErrNoTicket) {
					return nil
				}
				return err
			})
		}
	}
	if err := lookups.Wait(); err != nil {
		return fmt.Errorf("assign tickets of queue %s: %w", a.queue.Name, err)
	}
	for i := range groups {
		var team []*matchmaking.Ticket
		for j, id := range groups[i].Tickets {
			if owners[j].Queue == a.queue.Name {
				team = append(team, &matchmaking.Ticket{ID: id, Epoch: owners[j].Epoch})
			} else {
				a.failed[id] = AssignmentFailure{TicketID: id, NotFound: true}
			}
		}
		owners = owners[len(groups[i].Tickets):]
		if len(team) > 0 {
			a.remaining = append(a.remaining, &assignedGroup{place: groups[i].Allocation, Proposal: matchmaking.Proposal{
				ID: matchmaking.NewID(a.queue.Name), Teams: [][]*matchmaking.Ticket{team},
			}})
		}
	}
	return nil
}

// assignRemaining assigns the matches that are left. Those of which some tickets can't be assigned remain, without
// these.
func (a *assigning) assignRemaining(ctx context.Context) error {
	r := matchmaking.AssignRequest{Queue: a.queue.Name, Token: a.token, Any: true, Keep: a.queue.AssignmentTTL.Std()}
	tickets, bytes := 0, 0
	for _, g := range a.remaining {
		match, err := a.queue.Assignments(&g.Proposal, g.place)
		if err != nil {
			return err
		}
		for _, t := range match.Assignments {
			tickets, bytes = tickets+1, bytes+len(t.Content)
		}
		if bytes > matchmaking.MaxAssignmentBytes {
			return matchmaking.TooLargeAssignments(tickets, bytes)
		}
		r.Matches = append(r.Matches, match)
	}
	var remaining []*assignedGroup
	var conflicts []string
	var failure error
	for i, o := range a.options.Store.Assign(ctx, r) {
		switch {
		case o.Err != nil:
			failure = o.Err
		case len(o.Conflicts) == 0:
			a.assigned(&r.Matches[i], &o)
		default:
			remaining = append(remaining, a.remaining[i])
			for _, c := range o.Conflicts {
				conflicts = append(conflicts, c.ID)
			}
		}
	}
	if failure != nil || len(remaining) == 0 {
		a.remaining = nil
		return failure
	}
	a.remaining = remaining
	return a.exclude(ctx, conflicts)
}

// assigned counts an assigned match, and hands its assignments to the relay.
func (a *assigning) assigned(m *matchmaking.AssignMatch, o *matchmaking.AssignOutcome) {
	a.options.Metrics.Queue(a.queue.Name).Matched(o.Waits)
	a.offer(a.queue.Name, m.AppendOutgoing(nil, o.Entries, ""))
}

// exclude removes tickets from the matches that are left, and records those of them that aren't assigned as they
// should be.
func (a *assigning) exclude(ctx context.Context, ids []string) error {
	found, err := a.options.Store.States(ctx, a.queue.Name, ids)
	if err != nil {
		return err
	}
	states := make(map[string]*matchmaking.TicketState, len(ids))
	for i, id := range ids {
		states[id] = &found[i]
	}
	var remaining []*assignedGroup
	for _, g := range a.remaining {
		var team []*matchmaking.Ticket
		for _, t := range g.Teams[0] {
			state := states[t.ID]
			if state == nil {
				team = append(team, t)
				continue
			}
			same, err := hasAllocation(state, &g.place)
			if err != nil {
				return fmt.Errorf("ticket %s: %w", t.ID, err)
			}
			if !same {
				a.failed[t.ID] = AssignmentFailure{TicketID: t.ID, NotFound: state.Created.IsZero()}
			}
		}
		if g.Teams[0] = team; len(team) > 0 {
			remaining = append(remaining, g)
		}
	}
	a.remaining = remaining
	return nil
}

// hasAllocation reports whether a ticket is assigned with the connection and the extensions of an allocation. Errors:
// fault.ErrUnavailable if replicas haven't confirmed its assignment.
func hasAllocation(state *matchmaking.TicketState, place *matchmaking.Allocation) (bool, error) {
	switch {
	case state.Unconfirmed:
		return false, fault.ErrUnavailable.WithCause(errors.New("replicas have not confirmed its assignment"))
	case state.Content == "":
		return false, nil
	}
	var has matchmaking.Assignment
	if err := json.Unmarshal([]byte(state.Content), &has); err != nil {
		return false, fmt.Errorf("decode its assignment: %w", err)
	}
	return has.Connection == place.Connection && maps.EqualFunc(has.Extensions, place.Extensions, sameJSON), nil
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
