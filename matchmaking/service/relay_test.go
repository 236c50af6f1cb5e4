package service_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/onchannels"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
)

func TestARelayThatDiesBetweenPublishAndDelivered(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		o := w.options(t, define(t, "duel", `{}`))
		dying := &tampered{Store: w.queues}
		died := make(chan struct{}, 64)
		dying.delivered = func(context.Context, string, []string) error {
			dying.dead.Store(true)
			died <- struct{}{}
			return fault.ErrUnavailable
		}
		first := o
		first.Store = dying
		a := newService(t, first)
		background(t, a.Run)
		directs(t, a, "duel")
		x := create(t, a, service.NewTicket{Queue: "duel"})
		y := create(t, a, service.NewTicket{Queue: "duel"})
		<-died
		w.requireMatched(t, x.ID, y.ID)
		state, err := w.queues.Describe(t.Context(), "duel", 0)
		require.NoError(t, err)
		require.Equal(t, 2, state.Outgoing)

		seen := &brokenChannels{Channels: onchannels.New(w.channels)}
		second := o
		second.Channels = seen
		background(t, newService(t, second).Run)
		w.requireNoMore(t, "duel", x.ID, y.ID)
		require.Positive(t, seen.times(x.ID)+seen.times(y.ID))
	})
}

func TestARelayThatDiesBeforeItPublishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	first := o
	first.Channels = &brokenChannels{Channels: onchannels.New(w.channels), fail: func(string) error { return fault.ErrUnavailable }}
	a := newService(t, first)
	stop := background(t, a.Run)
	x := create(t, a, service.NewTicket{Queue: "duel"})
	y := create(t, a, service.NewTicket{Queue: "duel"})
	require.Eventually(t, func() bool {
		state, err := w.queues.Describe(t.Context(), "duel", 0)
		return err == nil && state.Outgoing == 2
	}, soon, time.Millisecond)
	stop()
	require.Empty(t, w.fetch(t, x.ID, 0).Messages)
	background(t, newService(t, o).Run)
	w.requireMatched(t, x.ID, y.ID)
	w.requireNoMore(t, "duel", x.ID, y.ID)
}

func TestAnAssignmentThatCannotBePublishedHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	o.ChannelTTL = 20 * time.Minute
	tooLarge := &fault.Error{Kind: fault.TooLarge, Slug: fault.SlugMessageTooLarge, Detail: "too large"}
	o.Channels = &brokenChannels{Channels: onchannels.New(w.channels), fail: func(name string) error {
		if name == matchmaking.ChannelOf("poison") {
			return tooLarge
		}
		return nil
	}}
	s := newService(t, o)
	background(t, s.Run)
	create(t, s, service.NewTicket{Queue: "duel", ID: "poison"})
	other := create(t, s, service.NewTicket{Queue: "duel"})
	w.assignment(t, other.ID)
	for range 3 {
		x := create(t, s, service.NewTicket{Queue: "duel"})
		y := create(t, s, service.NewTicket{Queue: "duel"})
		w.requireMatched(t, x.ID, y.ID)
	}
	require.Eventually(t, func() bool {
		state, err := w.queues.Describe(t.Context(), "duel", 0)
		return err == nil && state.Outgoing == 1
	}, soon, time.Millisecond)
}

// TestAssignmentsThatAreNotReplicatedAreNoErrors has replicas fall behind: that is an outage of the storage, and not a
// fault of each assignment.
func TestAssignmentsThatAreNotReplicatedAreNoErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	var refused, logged atomic.Int64
	o.Channels = &brokenChannels{Channels: onchannels.New(w.channels), fail: func(string) error {
		if refused.Add(1) > 8 {
			return nil
		}
		return &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugNotReplicated, Detail: "too few replicas"}
	}}
	o.Logger = slog.New(heldLog{Handler: testLog(t).Handler(), held: func(message string) {
		if message == "an assignment can't be published" {
			logged.Add(1)
		}
	}})
	s := newService(t, o)
	background(t, s.Run)
	x := create(t, s, service.NewTicket{Queue: "duel"})
	y := create(t, s, service.NewTicket{Queue: "duel"})
	w.requireMatched(t, x.ID, y.ID)
	require.Greater(t, refused.Load(), int64(8))
	require.Zero(t, logged.Load())
}
