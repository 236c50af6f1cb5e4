package service_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
)

func TestTwoTicketsAreMatched(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		o := w.options(t, define(t, "duel", `{"assigner":{"connection":"10.0.0.1:7777"}}`))
		o.Metrics = measured(t, prometheus.NewRegistry())
		s := newService(t, o)
		background(t, s.Run)
		a := create(t, s, service.NewTicket{Queue: "duel"})
		require.Equal(t, matchmaking.Searching, a.Status)
		b := create(t, s, service.NewTicket{Queue: "duel", ID: "chosen"})

		toA, toB := w.assignment(t, a.ID), w.assignment(t, b.ID)
		require.Equal(t, toA.MatchID, toB.MatchID)
		require.Equal(t, "10.0.0.1:7777", toA.Connection)
		require.Equal(t, "duel", toA.Queue)
		require.ElementsMatch(t, []int{0, 1}, []int{toA.Team, toB.Team})
		w.requireNoMore(t, "duel", a.ID, b.ID)

		read, err := s.Ticket(t.Context(), a.ID)
		require.NoError(t, err)
		require.Equal(t, matchmaking.MatchFound, read.Status)
		require.Equal(t, toA, *read.Assignment)
		require.ErrorIs(t, s.Cancel(t.Context(), a.ID), matchmaking.ErrTicketMatched)

		d, err := s.Describe(t.Context(), "duel")
		require.NoError(t, err)
		require.EqualValues(t, 2, d.Matched)
		require.True(t, d.Configured)
		require.Positive(t, d.MatchesPerSecond)
		require.Positive(t, d.WaitP99)
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		s := newService(t, w.options(t, define(t, "duel", `{}`)))
		background(t, s.Run)
		require.NoError(t, s.Cancel(t.Context(), "never-was"))
		require.NoError(t, s.Cancel(t.Context(), "no{name"))
		_, err := s.Ticket(t.Context(), "never-was")
		require.ErrorIs(t, err, matchmaking.ErrNoTicket)

		cancelled := create(t, s, service.NewTicket{Queue: "duel"})
		watched := make(chan error, 1)
		go func() {
			_, err := w.channels.Fetch(t.Context(), channel.Query{
				Channel: matchmaking.ChannelOf(cancelled.ID), Subscriber: matchmaking.Subscriber, Wait: time.Minute,
			})
			watched <- err
		}()
		require.Eventually(t, func() bool { waiting, _ := w.channels.Waiting(); return waiting == 1 }, soon,
			time.Millisecond)
		require.NoError(t, s.Cancel(t.Context(), cancelled.ID))
		require.ErrorIs(t, <-watched, channel.ErrNoSubscriber)
		require.NoError(t, s.Cancel(t.Context(), cancelled.ID))
		read, err := s.Ticket(t.Context(), cancelled.ID)
		require.NoError(t, err)
		require.Equal(t, matchmaking.Cancelled, read.Status)

		first := create(t, s, service.NewTicket{Queue: "duel"})
		second := create(t, s, service.NewTicket{Queue: "duel"})
		w.requireMatched(t, first.ID, second.ID)
		require.ErrorIs(t, s.Cancel(t.Context(), first.ID), matchmaking.ErrTicketMatched)
	})
}

func TestAnExpiredTicketEndsItsWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newService(t, w.options(t, define(t, "duel", `{"ticketTTL":"300ms"}`)))
	background(t, s.Run)
	cancelled := create(t, s, service.NewTicket{Queue: "duel"})
	_, err := w.channels.Fetch(t.Context(), channel.Query{
		Channel: matchmaking.ChannelOf(cancelled.ID), Subscriber: matchmaking.Subscriber, Wait: time.Minute,
	})
	require.ErrorIs(t, err, channel.ErrNoSubscriber)
	read, err := s.Ticket(t.Context(), cancelled.ID)
	require.NoError(t, err)
	require.Equal(t, matchmaking.Expired, read.Status)
}

// A director that fails to end a player's wait retries, and leaves it to the next director when it stops.
func TestAnExpiredTicketIsToldOfByTheNextDirector(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{"ticketTTL":"300ms"}`))
	mute := &muteChannels{Channels: delivery.New(w.channels)}
	o.Channels = mute
	first := newService(t, o)
	stop := background(t, first.Run)
	cancelled := create(t, first, service.NewTicket{Queue: "duel"})
	require.Eventually(t, func() bool { return mute.asked.Load() > 3 }, soon, time.Millisecond, "it goes on trying")
	stop()
	read, err := first.Ticket(t.Context(), cancelled.ID)
	require.NoError(t, err)
	require.Equal(t, matchmaking.Expired, read.Status)

	background(t, newService(t, w.options(t, define(t, "duel", `{"ticketTTL":"300ms"}`))).Run)
	_, err = w.channels.Fetch(t.Context(), channel.Query{
		Channel: matchmaking.ChannelOf(cancelled.ID), Subscriber: matchmaking.Subscriber, Wait: time.Minute,
	})
	require.ErrorIs(t, err, channel.ErrNoSubscriber)
	w.emptied(t, "duel")
}

// muteChannels fails to end subscriptions.
type muteChannels struct {
	service.Channels
	asked atomic.Int32
}

func (c *muteChannels) Unsubscribe(context.Context, string, ulid.ULID) error {
	c.asked.Add(1)
	return fault.ErrUnavailable
}

func TestACreationThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`), define(t, "other", `{}`))
	ids := make(chan string, 8)
	var fail atomic.Bool
	fail.Store(true)
	tries := 0
	o.Store = &tampered{
		Store: w.queues,
		create: func(_ context.Context, r matchmaking.CreateRequest) error {
			ids <- r.ID
			if fail.Load() {
				return fault.ErrUnavailable
			}
			return nil
		},
		undo: func() error {
			if tries++; tries < 4 {
				return fault.ErrUnavailable
			}
			return nil
		},
	}
	s := newService(t, o)
	_, _, err := s.Create(t.Context(), service.NewTicket{Queue: "duel"})
	require.ErrorIs(t, err, fault.ErrUnavailable)
	_, _, err = s.Create(t.Context(), service.NewTicket{Queue: "other", ID: "again"})
	require.ErrorIs(t, err, fault.ErrUnavailable)
	fail.Store(false)
	// The caller retries on another server: the ticket now belongs to that attempt.
	_, created, err := newService(t, w.options(t, define(t, "other", `{}`))).Create(t.Context(),
		service.NewTicket{Queue: "other", ID: "again"})
	require.NoError(t, err)
	require.False(t, created)

	background(t, s.Run)
	undone := <-ids
	require.Eventually(t, func() bool {
		_, err := s.Ticket(t.Context(), undone)
		return errors.Is(err, matchmaking.ErrNoTicket)
	}, soon, 5*time.Millisecond)
	partner := create(t, s, service.NewTicket{Queue: "other"})
	w.requireMatched(t, "again", partner.ID)
}
