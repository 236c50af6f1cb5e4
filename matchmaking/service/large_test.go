package service_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
)

// overreaching proposes one match of all tickets that there are, beside what the built-in matcher proposes.
type overreaching struct {
	matchmaking.Matcher
	all  map[string]*matchmaking.Ticket
	from int // tickets that it takes at least
}

func (g *overreaching) Add(t *matchmaking.Ticket) {
	g.all[t.ID] = t
	g.Matcher.Add(t)
}

func (g *overreaching) Remove(id string) {
	delete(g.all, id)
	g.Matcher.Remove(id)
}

func (g *overreaching) Match(ctx context.Context, now time.Time) ([]matchmaking.Proposal, error) {
	if len(g.all) >= g.from {
		everybody := matchmaking.Proposal{ID: "everybody", Score: 1000}
		for _, t := range g.all {
			everybody.Teams = append(everybody.Teams, []*matchmaking.Ticket{t})
		}
		return []matchmaking.Proposal{everybody}, nil
	}
	return g.Matcher.Match(ctx, now)
}

// A proposal with too many tickets is refused and counted, and its tickets go on searching.
func TestProposalsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t)
	registry := prometheus.NewRegistry()
	o.Metrics = measured(t, registry)
	o.Build = buildWith(nil, func(m matchmaking.Matcher) matchmaking.Matcher {
		return &overreaching{Matcher: m, all: map[string]*matchmaking.Ticket{}, from: matchmaking.MaxMatchTickets + 1}
	})
	s := newService(t, o)
	_, _, err := s.PutQueue(t.Context(), "duel", []byte(`{"match":{"teams":2}}`))
	require.NoError(t, err)
	var ids []string
	for i := range matchmaking.MaxMatchTickets + 1 {
		ids = append(ids, create(t, s, service.NewTicket{Queue: "duel", ID: fmt.Sprint("t", i)}).ID)
	}
	background(t, s.Run)
	require.Eventually(t, func() bool { return values(t, registry, "duel")["tidemark_proposals_refused_total"] > 0 }, soon, 5*time.Millisecond)
	for _, id := range ids {
		found, err := s.Ticket(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, matchmaking.Searching, found.Status)
	}
	require.NoError(t, s.Cancel(t.Context(), ids[0]))
	w.emptied(t, "duel") // one less is a match of 2 after the other
	require.Zero(t, values(t, registry, "duel")["tidemark_assign_conflicts_total gone"])
	require.NoError(t, s.DeleteQueue(t.Context(), "duel"))
	require.Eventually(t, func() bool { return len(values(t, registry, "duel")) == 0 }, soon, 5*time.Millisecond)
}

// An assignment that the storage refuses for good isn't tried again. Its place is given back, its tickets go on searching.
func TestAssignmentThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	assigner := &place{}
	o.Build = buildWith(assigner, nil)
	refuse := true
	store := &tampered{Store: w.queues}
	store.assign = func(ctx context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
		if refuse { // a director has one goroutine here
			refuse = false
			return []matchmaking.AssignOutcome{{Err: fmt.Errorf("assign: %w", matchmaking.ErrNotAssigned)}}
		}
		return store.Store.Assign(ctx, r)
	}
	o.Store = store
	s := newService(t, o)
	background(t, s.Run)
	first := create(t, s, service.NewTicket{Queue: "duel"})
	second := create(t, s, service.NewTicket{Queue: "duel"})
	made := w.requireMatched(t, first.ID, second.ID)
	require.Eventually(t, func() bool {
		_, released := assigner.tried()
		return len(released) == 1
	}, soon, time.Millisecond)
	allocated, released := assigner.tried()
	require.Equal(t, 2, allocated)
	require.NotContains(t, released, made.MatchID)
}
