package service_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
)

func TestAClaimThatAnotherHoldsPartOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	var once sync.Once
	deadline := make(chan time.Time, 1)
	o.Store = &tampered{Store: w.queues, claim: func(ctx context.Context, r matchmaking.ClaimRequest) {
		once.Do(func() {
			c, err := w.queues.Claim(ctx, matchmaking.ClaimRequest{
				Queue: r.Queue, Token: "another", Hold: 500 * time.Millisecond, IDs: r.IDs[:1],
			})
			if err == nil {
				deadline <- c.Deadline
			}
		})
	}}
	s := newService(t, o)
	background(t, s.Run)
	first := create(t, s, service.NewTicket{Queue: "duel"})
	second := create(t, s, service.NewTicket{Queue: "duel"})
	until := <-deadline
	third := create(t, s, service.NewTicket{Queue: "duel"})
	fourth := create(t, s, service.NewTicket{Queue: "duel"})

	w.requireMatched(t, second.ID, third.ID) // at once, without the one that another holds
	w.requireMatched(t, first.ID, fourth.ID)
	require.False(t, w.fetch(t, first.ID, 0).Messages[0].PublishedAt.Before(until))
	w.requireNoMore(t, "duel", first.ID, second.ID, third.ID, fourth.ID)
}

// Tickets that another held when the director came are left alone until the claim's deadline, or until they are given up.
func TestTicketsThatAnotherGivesUpAreMatchedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	o.Build = buildWith(&place{}, nil) // an allocation may be under way
	s := newService(t, o)
	first := create(t, s, service.NewTicket{Queue: "duel"})
	second := create(t, s, service.NewTicket{Queue: "duel"})
	ids := []string{first.ID, second.ID}
	_, err := w.queues.Claim(t.Context(), matchmaking.ClaimRequest{Queue: "duel", Token: "another.1", Hold: time.Hour, IDs: ids})
	require.NoError(t, err)
	background(t, s.Run)
	third := create(t, s, service.NewTicket{Queue: "duel"})
	fourth := create(t, s, service.NewTicket{Queue: "duel"})
	w.requireMatched(t, third.ID, fourth.ID) // so the director is at work

	require.NoError(t, w.queues.Release(t.Context(), "duel", "another.1", ids))
	w.requireMatched(t, first.ID, second.ID)
}

func TestAClaimOfTicketsThatAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	var once sync.Once
	o.Store = &tampered{Store: w.queues, claim: func(ctx context.Context, r matchmaking.ClaimRequest) {
		once.Do(func() {
			_ = w.queues.Cancel(ctx, matchmaking.CancelRequest{Queue: r.Queue, ID: r.IDs[0], Keep: time.Minute})
		})
	}}
	s := newService(t, o)
	background(t, s.Run)
	first := create(t, s, service.NewTicket{Queue: "duel"})
	second := create(t, s, service.NewTicket{Queue: "duel"})
	third := create(t, s, service.NewTicket{Queue: "duel"})
	w.requireMatched(t, second.ID, third.ID)
	require.Empty(t, w.fetch(t, first.ID, 0).Messages)
	w.emptied(t, "duel")
}

func TestAnAllocationThatTakesTooLongIsAConflict(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		var calls atomic.Int32
		late := make(chan string, 1)
		a := &place{}
		a.allocate = func(ctx context.Context, p matchmaking.Proposal) (matchmaking.Allocation, error) {
			if calls.Add(1) == 1 {
				<-ctx.Done() // and then until nobody holds the tickets
				for state := (matchmaking.QueueState{Pending: 2}); state.Pending > 0; <-time.After(5 * time.Millisecond) {
					state, _ = w.queues.Describe(context.WithoutCancel(ctx), "duel", 0)
				}
				late <- p.ID
				return matchmaking.Allocation{Connection: "late", Token: "mine"}, nil
			}
			return matchmaking.Allocation{Connection: "in time"}, nil
		}
		o := w.options(t, define(t, "duel", `{"pendingTimeout":"300ms"}`))
		o.Build = buildWith(a, nil)
		s := newService(t, o)
		background(t, s.Run)
		first := create(t, s, service.NewTicket{Queue: "duel"})
		second := create(t, s, service.NewTicket{Queue: "duel"})
		require.Equal(t, "in time", w.requireMatched(t, first.ID, second.ID).Connection)
		w.requireNoMore(t, "duel", first.ID, second.ID)

		match := <-late
		require.Eventually(t, func() bool {
			_, released := a.tried()
			return released[match].Token == "mine"
		}, soon, time.Millisecond)
		state, err := w.queues.Describe(t.Context(), "duel", 0)
		require.NoError(t, err)
		require.EqualValues(t, 1, state.Conflicts)
	})
}

func TestASlowAllocationHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var calls atomic.Int32
	free := make(chan struct{})
	a := &place{}
	a.allocate = func(ctx context.Context, _ matchmaking.Proposal) (matchmaking.Allocation, error) {
		if calls.Add(1) == 1 {
			select {
			case <-free:
			case <-ctx.Done():
				return matchmaking.Allocation{}, ctx.Err()
			}
		}
		return matchmaking.Allocation{Connection: "here"}, nil
	}
	o := w.options(t, define(t, "duel", `{}`))
	o.Build = buildWith(a, nil)
	s := newService(t, o)
	background(t, s.Run)
	var slow []string
	for range 2 {
		slow = append(slow, create(t, s, service.NewTicket{Queue: "duel"}).ID)
	}
	require.Eventually(t, func() bool { return calls.Load() == 1 }, soon, time.Millisecond)
	third := create(t, s, service.NewTicket{Queue: "duel"})
	fourth := create(t, s, service.NewTicket{Queue: "duel"})
	w.requireMatched(t, third.ID, fourth.ID)
	require.Empty(t, w.fetch(t, slow[0], 0).Messages)
	close(free)
	w.requireMatched(t, slow[0], slow[1])
}

func TestAnAllocationThatFailsIsTriedWithAnotherMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var calls atomic.Int32
	a := &place{}
	a.allocate = func(context.Context, matchmaking.Proposal) (matchmaking.Allocation, error) {
		if calls.Add(1) < 3 {
			return matchmaking.Allocation{Token: "half"}, errors.New("no server is free")
		}
		return matchmaking.Allocation{Connection: "here"}, nil
	}
	o := w.options(t, define(t, "duel", `{}`))
	o.Build = buildWith(a, nil)
	s := newService(t, o)
	background(t, s.Run)
	first := create(t, s, service.NewTicket{Queue: "duel"})
	second := create(t, s, service.NewTicket{Queue: "duel"})
	match := w.requireMatched(t, first.ID, second.ID).MatchID
	require.Eventually(t, func() bool {
		allocated, released := a.tried()
		_, ours := released[match]
		return allocated == 3 && len(released) == 2 && !ours
	}, soon, time.Millisecond)
}

// The log holds the failed match up until another one has its place, which begins the count of failures anew.
func TestAnAllocationThatFailsBesideOneThatSucceeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var calls atomic.Int32
	a := &place{}
	a.allocate = func(context.Context, matchmaking.Proposal) (matchmaking.Allocation, error) {
		if calls.Add(1) == 1 {
			return matchmaking.Allocation{}, errors.New("no server is free")
		}
		return matchmaking.Allocation{Connection: "here"}, nil
	}
	o := w.options(t, define(t, "duel", `{}`))
	o.Build = buildWith(a, nil)
	failed, free := make(chan struct{}), make(chan struct{})
	o.Logger = slog.New(heldLog{Handler: testLog(t).Handler(), held: func(message string) {
		if message == "allocation failing" {
			close(failed)
			<-free
		}
	}})
	s := newService(t, o)
	background(t, s.Run)
	first := create(t, s, service.NewTicket{Queue: "duel"})
	second := create(t, s, service.NewTicket{Queue: "duel"})
	<-failed
	third := create(t, s, service.NewTicket{Queue: "duel"})
	fourth := create(t, s, service.NewTicket{Queue: "duel"})
	w.requireMatched(t, third.ID, fourth.ID)
	close(free)
	w.requireMatched(t, first.ID, second.ID)
}

// heldLog calls held before each message.
type heldLog struct {
	slog.Handler
	held func(message string)
}

func (h heldLog) Handle(ctx context.Context, r slog.Record) error {
	h.held(r.Message)
	return h.Handler.Handle(ctx, r)
}

func (h heldLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return heldLog{Handler: h.Handler.WithAttrs(attrs), held: h.held}
}

func (h heldLog) WithGroup(name string) slog.Handler {
	return heldLog{Handler: h.Handler.WithGroup(name), held: h.held}
}

func TestAnAssignmentWhoseOutcomeIsNotKnown(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"made": true, "not made": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := &place{}
			var calls atomic.Int32
			o := w.options(t, define(t, "duel", `{}`))
			o.Build = buildWith(a, nil)
			o.Store = &tampered{Store: w.queues, assign: func(ctx context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
				failing := calls.Add(1) <= 3
				if failing && !applied {
					return slices.Repeat([]matchmaking.AssignOutcome{{Err: fault.ErrUnavailable}}, len(r.Matches))
				}
				outcomes := w.queues.Assign(ctx, r)
				if failing {
					return nil // as if the answer was lost
				}
				return outcomes
			}}
			s := newService(t, o)
			background(t, s.Run)
			first := create(t, s, service.NewTicket{Queue: "duel"})
			second := create(t, s, service.NewTicket{Queue: "duel"})
			w.requireMatched(t, first.ID, second.ID)
			w.requireNoMore(t, "duel", first.ID, second.ID)
			require.Eventually(t, func() bool { return calls.Load() == 4 }, soon, time.Millisecond)
			allocated, released := a.tried()
			require.Equal(t, 1, allocated)
			require.Empty(t, released)
		})
	}
}

func TestALeaseThatIsLostInTheMiddleOfARound(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		o := w.options(t, define(t, "duel", `{}`))
		var once sync.Once
		var thief atomic.Bool
		o.Store = &tampered{
			Store: w.queues,
			claim: func(ctx context.Context, r matchmaking.ClaimRequest) {
				once.Do(func() {
					_ = w.queues.Resign(ctx, r.Queue, r.Lease)
					_, err := w.queues.Lease(ctx, matchmaking.LeaseRequest{Queue: r.Queue, Lease: "thief", TTL: 300 * time.Millisecond})
					thief.Store(err == nil)
				})
			},
		}
		s := newService(t, o)
		background(t, s.Run)
		first := create(t, s, service.NewTicket{Queue: "duel"})
		second := create(t, s, service.NewTicket{Queue: "duel"})
		w.requireMatched(t, first.ID, second.ID)
		require.True(t, thief.Load())
		w.requireNoMore(t, "duel", first.ID, second.ID)
	})
}

// moody is a matcher that fails at first.
type moody struct {
	matchmaking.Matcher
	failures int
	tries    *[]time.Time
}

func (m *moody) Match(ctx context.Context, now time.Time) ([]matchmaking.Proposal, error) {
	*m.tries = append(*m.tries, time.Now())
	if m.failures--; m.failures >= 0 {
		return nil, errors.New("no mood")
	}
	return m.Matcher.Match(ctx, now)
}

func TestAMatchFunctionThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var tries []time.Time
	o := w.options(t, define(t, "duel", `{}`))
	o.Build = func(d matchmaking.Definition) (matchmaking.Parts, error) {
		parts, err := build(d)
		if d.Name == "duel" {
			parts.Matcher = &moody{Matcher: parts.Matcher, failures: 4, tries: &tries}
		}
		return parts, err
	}
	s := newService(t, o)
	stop := background(t, s.Run)
	first := create(t, s, service.NewTicket{Queue: "duel"})
	second := create(t, s, service.NewTicket{Queue: "duel"})
	w.requireMatched(t, first.ID, second.ID)
	stop()
	require.Less(t, len(tries), 10) // and not in a hot loop
}

// greedy proposes each of its tickets alone and with all others, and nonsense.
type greedy struct{ tickets []*matchmaking.Ticket }

func (g *greedy) Add(t *matchmaking.Ticket) { g.tickets = append(g.tickets, t) }

func (g *greedy) Remove(id string) {
	g.tickets = slices.DeleteFunc(g.tickets, func(t *matchmaking.Ticket) bool { return t.ID == id })
}

func (g *greedy) Next() time.Time { return time.Time{} }

func (g *greedy) Match(context.Context, time.Time) ([]matchmaking.Proposal, error) {
	all := g.tickets
	if len(all) < 2 {
		return nil, nil
	}
	g.tickets = nil
	return []matchmaking.Proposal{
		{ID: "not an ID", Teams: [][]*matchmaking.Ticket{all}},
		{Teams: [][]*matchmaking.Ticket{{all[0], all[0]}}},
		{Teams: [][]*matchmaking.Ticket{{all[0], {ID: "stranger"}}}},
		{Teams: [][]*matchmaking.Ticket{{}}},
		{ID: "pair", Teams: [][]*matchmaking.Ticket{all[:1], all[1:2]}},
		{ID: "shared", Teams: [][]*matchmaking.Ticket{all[:1]}},
	}, nil
}

// everyone is an evaluator that keeps all proposals.
type everyone struct{}

func (everyone) Evaluate(_ context.Context, proposals []matchmaking.Proposal) ([]matchmaking.Proposal, error) {
	return proposals, nil
}

func TestProposalsThatCannotBeMatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	o.Build = func(d matchmaking.Definition) (matchmaking.Parts, error) {
		parts, err := build(d)
		parts.Matcher, parts.Evaluator = &greedy{}, everyone{}
		return parts, err
	}
	s := newService(t, o)
	background(t, s.Run)
	first := create(t, s, service.NewTicket{Queue: "duel"})
	second := create(t, s, service.NewTicket{Queue: "duel"})
	require.Equal(t, "pair", w.requireMatched(t, first.ID, second.ID).MatchID)
	w.requireNoMore(t, "duel", first.ID, second.ID)
}
