package service_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// brief is a definition with short lifetimes, so that the IDs of tickets are soon reusable.
const brief = `{"assignmentTTL": "300ms"}`

// isSlug reports whether an error has a slug.
func isSlug(err error, slug fault.Slug) bool {
	var clientErr *fault.Error
	return errors.As(err, &clientErr) && clientErr.Slug == slug
}

// over waits until no ticket has an ID anymore.
func over(t *testing.T, s *service.Service, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := s.Ticket(t.Context(), id)
		return isSlug(err, fault.SlugNoTicket)
	}, soon, 5*time.Millisecond)
}

// match creates two tickets that match each other, and returns the ID of their match.
func (w *world) match(t *testing.T, s *service.Service, queue string) (match string) {
	t.Helper()
	for _, id := range []string{"ann", "ben"} {
		create(t, s, service.NewTicket{Queue: queue, ID: id})
	}
	ann, ben := w.assignment(t, "ann"), w.assignment(t, "ben")
	require.Equal(t, ann.MatchID, ben.MatchID)
	require.Equal(t, queue, ann.Queue)
	return ann.MatchID
}

// A new ticket receives its own assignment, and no message of an earlier one with its ID, whether or not that message
// was acknowledged, also in another queue.
func TestTicketIDsAreUsedAgain(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		s := newService(t, w.options(t, define(t, "one", brief), define(t, "two", brief)))
		background(t, s.Run)
		seen := map[string]bool{}
		for _, queue := range []string{"one", "one", "two", "one"} {
			match := w.match(t, s, queue)
			require.False(t, seen[match], "the match of earlier tickets")
			seen[match] = true
			over(t, s, "ann")
			over(t, s, "ben")
		}
	})
}

// A ticket's channel is empty until the ticket is matched.
func TestNewTicketHasNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newService(t, w.options(t, define(t, "one", brief)))
	background(t, s.Run)
	match := w.match(t, s, "one")
	over(t, s, "ann")
	for range 2 { // the repeat finds the ticket
		made, _, err := s.Create(t.Context(), service.NewTicket{Queue: "one", ID: "ann"})
		require.NoError(t, err)
		require.Equal(t, matchmaking.Searching, made.Status)
		require.Empty(t, w.fetch(t, "ann", 0).Messages)
	}
	create(t, s, service.NewTicket{Queue: "one"})
	require.NotEqual(t, match, w.assignment(t, "ann").MatchID)
	_, created, err := s.Create(t.Context(), service.NewTicket{Queue: "one", ID: "ann"})
	require.NoError(t, err)
	require.False(t, created)
	w.assignment(t, "ann") // a repetition doesn't skip its own assignment
}

// A delayed assignment isn't published to a later ticket with the ID.
func TestLateRelayOfAnEarlierTicket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	options := w.options(t, define(t, "one", brief))
	var stuck sync.Map // tickets whose assignments can't be published at the moment
	channels := &brokenChannels{Channels: delivery.New(w.channels), fail: func(name string) error {
		if _, is := stuck.Load(name); is {
			return fault.ErrUnavailable
		}
		return nil
	}}
	options.Channels = channels
	s := newService(t, options)
	background(t, s.Run)
	stuck.Store(matchmaking.ChannelOf("ann"), nil)
	create(t, s, service.NewTicket{Queue: "one", ID: "ann"})
	create(t, s, service.NewTicket{Queue: "one", ID: "ben"})
	old := w.assignment(t, "ben").MatchID
	over(t, s, "ann")

	create(t, s, service.NewTicket{Queue: "one", ID: "ann"})
	stuck.Clear()
	w.emptyOutbox(t, "one")
	require.Empty(t, w.fetch(t, "ann", 0).Messages)
	create(t, s, service.NewTicket{Queue: "one", ID: "cid"})
	require.NotEqual(t, old, w.assignment(t, "ann").MatchID)
}

// emptyOutbox waits until the outbox of a queue is empty.
func (w *world) emptyOutbox(t *testing.T, queue string) {
	t.Helper()
	require.Eventually(t, func() bool {
		state, err := w.queues.Describe(t.Context(), queue, 0)
		return err == nil && state.Outgoing == 0
	}, soon, 5*time.Millisecond)
}

// After a ticket has ended, in any way, its ID is free for any queue. Refused attempts don't delay that.
func TestIDIsFreeOnceItsTicketIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newService(t, w.options(t, define(t, "one", brief), define(t, "two", brief),
		define(t, "three", `{"match":{"teams":9}}`)))
	background(t, s.Run)
	for id, end := range map[string]func(){
		"cancelled": func() { require.NoError(t, s.Cancel(t.Context(), "cancelled")) },
		"expired":   func() {},
		"assigned":  func() { create(t, s, service.NewTicket{Queue: "one"}) },
	} {
		made := service.NewTicket{Queue: "one", ID: id}
		if id == "expired" {
			made.TTL = matchmaking.MinLifetime
		}
		create(t, s, made)
		end()
		require.Eventually(t, func() bool {
			_, created, err := s.Create(t.Context(), service.NewTicket{Queue: "three", ID: id})
			if err != nil {
				require.True(t, isSlug(err, fault.SlugTicketExists), "%s: %v", id, err)
			}
			return created
		}, soon, 5*time.Millisecond, id)
		found, err := s.Ticket(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "three", found.Queue)
		_, _, err = s.Create(t.Context(), service.NewTicket{Queue: "one", ID: id})
		require.True(t, isSlug(err, fault.SlugTicketExists), "%s: %v", id, err)
	}
}

// A refused attempt writes nothing to the channel of the ticket that has the ID.
func TestRefusedAttemptRenewsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newService(t, w.options(t, define(t, "one", brief), define(t, "two", brief)))
	create(t, s, service.NewTicket{Queue: "one", ID: "ann"})
	require.NoError(t, s.Cancel(t.Context(), "ann"))
	for _, queue := range []string{"two", "one"} {
		_, created, _ := s.Create(t.Context(), service.NewTicket{Queue: queue, ID: "ann"})
		require.False(t, created)
		_, err := w.channels.Fetch(t.Context(), channel.Query{Channel: matchmaking.ChannelOf("ann"),
			Subscriber: matchmaking.Subscriber})
		require.ErrorIs(t, err, channel.ErrNoSubscriber, "it was cancelled")
	}
}

// An attempt that arrives after its ID was reserved for another queue creates no ticket, and is refused.
func TestAttemptThatWasOvertaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow, overtaken := &held{Store: w.queues}, false
	options := w.options(t, define(t, "one", brief), define(t, "two", `{"match":{"teams":9}}`))
	quick := newService(t, options)
	options.Store = slow
	s := newService(t, options)
	slow.create = func(ctx context.Context) {
		if overtaken {
			return
		}
		overtaken = true
		_, created, err := quick.Create(ctx, service.NewTicket{Queue: "two", ID: "ann"})
		require.NoError(t, err)
		require.True(t, created)
	}
	_, _, err := s.Create(t.Context(), service.NewTicket{Queue: "one", ID: "ann"})
	require.True(t, isSlug(err, fault.SlugTicketExists), "%v", err)
	state, err := w.queues.Describe(t.Context(), "one", 0)
	require.NoError(t, err)
	require.Zero(t, state.Searching)
}

// held is a store with a hook before each creation.
type held struct {
	matchmaking.Store
	create func(context.Context)
}

func (h *held) Create(ctx context.Context, r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
	h.create(ctx)
	return h.Store.Create(ctx, r)
}

// Many concurrent requests on many servers create a ticket with one ID in several queues. One succeeds, and its
// assignment is published.
func TestManyCreateOneID(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		options := w.options(t, define(t, "one", brief), define(t, "two", brief))
		s := newService(t, options)
		background(t, s.Run)
		for range 5 {
			var made sync.Map
			var all sync.WaitGroup
			for i := range 8 {
				another := newService(t, options)
				all.Go(func() {
					queue := []string{"one", "two"}[i%2]
					found, _, err := another.Create(t.Context(), service.NewTicket{Queue: queue, ID: "ann"})
					if err == nil {
						made.Store(found.CreateTime, found.Queue)
					} else if !isSlug(err, fault.SlugTicketExists) {
						t.Errorf("in %s: %v", queue, err)
					}
				})
			}
			all.Wait()
			tickets, has := 0, ""
			made.Range(func(_, queue any) bool {
				tickets, has = tickets+1, queue.(string)
				return true
			})
			require.Equal(t, 1, tickets)
			create(t, s, service.NewTicket{Queue: has, ID: ulid.Make().String()})
			require.Equal(t, has, w.assignment(t, "ann").Queue)
			over(t, s, "ann")
		}
	})
}

// lose removes keys, as a fail-over of their node may.
func (w *world) lose(t *testing.T, pattern string) {
	t.Helper()
	n := redistest.Standalone(t)
	keys, err := n.Do(t, "KEYS", w.prefix+pattern).AsStrSlice()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	require.NoError(t, n.Do(t, append([]string{"DEL"}, keys...)...).Error())
}

// A ticket's channel is lost, and created again when its player repeats the creation of the ticket. The ticket is the
// same, and its assignment is published on the new channel.
func TestAssignmentAfterTheChannelWasLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newService(t, w.options(t, define(t, "one", brief)))
	background(t, s.Run)
	create(t, s, service.NewTicket{Queue: "one", ID: "ann"})
	w.lose(t, "*{ticket.ann}*")
	_, created, err := s.Create(t.Context(), service.NewTicket{Queue: "one", ID: "ann"})
	require.NoError(t, err)
	require.False(t, created)
	create(t, s, service.NewTicket{Queue: "one", ID: "ben"})
	require.Equal(t, w.assignment(t, "ben").MatchID, w.assignment(t, "ann").MatchID)
}

// A lost channel can be created again for a ticket of another queue, which doesn't receive the assignment of the first.
func TestAssignmentAfterTheChannelWasLostToAnotherQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newService(t, w.options(t, define(t, "one", `{}`), define(t, "two", `{}`)))
	background(t, s.Run)
	create(t, s, service.NewTicket{Queue: "one", ID: "ann"})
	w.lose(t, "*{ticket.ann}*")
	create(t, s, service.NewTicket{Queue: "two", ID: "ann"})
	create(t, s, service.NewTicket{Queue: "one", ID: "ben"})
	w.assignment(t, "ben")
	w.emptyOutbox(t, "one")
	require.Empty(t, w.fetch(t, "ann", 0).Messages)
}

// TestAFailoverLosesTheMessageOfAChosenTicket covers a fail-over that loses the message with an assignment: the player
// receives it after the next look at the ticket. A second one loses the ticket, too.
func TestAFailoverLosesTheMessageOfAChosenTicket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newService(t, w.options(t, define(t, "duel", `{}`)))
	stop := background(t, s.Run)
	create(t, s, service.NewTicket{Queue: "duel", ID: "ann"})
	published, err := s.Redeliver(t.Context(), "ann")
	require.NoError(t, err)
	require.False(t, published, "it waits")
	create(t, s, service.NewTicket{Queue: "duel", ID: "ben"})
	match := w.assignment(t, "ann").MatchID
	w.requireNoMore(t, "duel", "ann", "ben")
	stop()
	w.lose(t, "c.{ticket.ann}.m*")
	require.Empty(t, w.fetch(t, "ann", 0).Messages)
	for range 2 {
		published, err = s.Redeliver(t.Context(), "ann")
		require.NoError(t, err)
		require.True(t, published)
		require.Equal(t, match, w.assignment(t, "ann").MatchID)
		w.requireNoMore(t, "duel", "ann")
	}
	w.lose(t, "mm.{duel}.*")
	require.ErrorIs(t, storagetest.ErrorOf(s.Redeliver(t.Context(), "ann")), matchmaking.ErrNoTicket)
	require.ErrorIs(t, storagetest.ErrorOf(s.Redeliver(t.Context(), "never")), matchmaking.ErrNoTicket)
}
