package queues

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

// confirmedHall returns a queue whose claims and assignments need confirmation by a replica.
func confirmedHall(t *testing.T) (h *hall, replica, primary *redistest.Node) {
	t.Helper()
	primary = redistest.Start(t, redistest.Options{})
	replica = redistest.StartReplica(t, primary)
	conn := storetest.Connect(t, redis.Options{URL: primary.URL(), Timeout: time.Minute})
	return hallOf(t, New(conn, Options{Confirmations: 1}), primary.Client()), replica, primary
}

// Claims and assignments that need confirmation count only after it, and their repetitions wait too.
func TestQueueWaitsForReplicas(t *testing.T) {
	t.Parallel()
	h, replica, _ := confirmedHall(t)
	onReplica := func(command, key string) int64 {
		n, err := replica.Do(t, command, key).AsInt64()
		require.NoError(t, err)
		return n
	}
	claim := func(ctx context.Context, token string, ids ...string) error {
		return storagetest.ErrorOf(h.Claim(ctx, matchmaking.ClaimRequest{Queue: h.Name, Token: token,
			Hold: queuetest.LongHold, IDs: ids}))
	}
	ends := make(chan string, 10)
	t.Cleanup(h.ListenAssigned(h.Name, matchmaking.AssignedListener{
		Confirmed: func() { ends <- "" }, Interrupted: func() {},
		Ended: func(e matchmaking.TicketEnd) { ends <- strings.Clone(e.ID + e.Content) },
	}))
	require.Empty(t, <-ends)
	h.Add(t, "a", "b", "c", "d", "e")
	match := func(id, ticket string) matchmaking.AssignMatch {
		m := h.Match(id, ticket)
		m.Assignments[0].Created = h.Get(t, ticket).CreateTime
		return m
	}
	m1, m2 := match("m1", "a"), match("m2", "b")
	require.NoError(t, claim(t.Context(), "token", "a", "b"))
	require.EqualValues(t, 2, onReplica("ZCARD", h.k().proposed()))
	first := h.AssignMatches(t.Context(), "token", m1)[0]
	require.NoError(t, first.Err)
	require.Len(t, first.Entries, 1)
	require.Equal(t, "a"+string(m1.Assignments[0].Content), <-ends)
	require.EqualValues(t, 1, onReplica("XLEN", h.k().outbox()))

	replica.Pause(t)
	for range 2 { // new, and then a repetition
		storetest.RequireNotReplicated(t, func(ctx context.Context) error { return claim(ctx, "other", "c", "d") })
		storetest.RequireNotReplicated(t, func(ctx context.Context) error {
			return h.AssignMatches(ctx, "token", m2)[0].Err
		})
	}
	storetest.RequireNotReplicated(t,
		func(ctx context.Context) error { return storagetest.ErrorOf(h.Outgoing(ctx, h.Name, 0, 10)) })
	conflict := h.AssignMatches(t.Context(), "token", h.Match("m3", "b"))[0]
	require.NoError(t, conflict.Err)
	require.NotEmpty(t, conflict.Conflicts, "what is refused waits for nobody")
	var both []matchmaking.AssignOutcome
	storetest.RequireNotReplicated(t, func(ctx context.Context) error {
		both = h.AssignMatches(ctx, "token", m2, h.Match("m3", "b"))
		return both[0].Err
	})
	require.NoError(t, both[1].Err, "a refusal is known, whatever replicas confirm")
	require.NotEmpty(t, both[1].Conflicts)

	require.NoError(t, h.CancelID(t.Context(), "e"))
	require.Equal(t, "e", <-ends, "no player is told of what replicas don't have")

	replica.Resume(t)
	require.NoError(t, claim(t.Context(), "other", "c", "d"))
	o := h.AssignMatches(t.Context(), "token", m2)[0]
	require.NoError(t, o.Err)
	require.Empty(t, o.Conflicts)
	require.Equal(t, "b"+string(m2.Assignments[0].Content), <-ends)
	require.EqualValues(t, 2, onReplica("XLEN", h.k().outbox()))
	found, err := h.Outgoing(t.Context(), h.Name, 0, 10)
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, 2, h.count(t, "HGET", h.k().stats(), "matched"))
}

// A caller that reads a ticket, or creates it again, receives its assignment only after a replica has it: before, a
// fail-over can still lose the match.
func TestReadsWaitForReplicas(t *testing.T) {
	t.Parallel()
	h, replica, primary := confirmedHall(t)
	// another server's
	other := New(storetest.Connect(t, redis.Options{URL: primary.URL(), Timeout: time.Minute}),
		Options{Confirmations: 1})
	t.Cleanup(other.Close)
	h.AddQuiet(t, "a", "b", "waits")
	h.Hold(t, "token", "a", "b")
	match, request := h.Match("m1", "a", "b"), h.Request("a")
	found := h.Request("b")
	found.Epoch, found.Attempt = h.Get(t, "b").Epoch, request.Attempt
	reads := map[string]func(ctx context.Context) (matchmaking.Ticket, error){
		"read": func(ctx context.Context) (matchmaking.Ticket, error) { return other.Ticket(ctx, h.Name, "a") },
		"create": func(ctx context.Context) (matchmaking.Ticket, error) {
			ticket, _, err := other.Create(ctx, request)
			return ticket, err
		},
		"find": func(ctx context.Context) (matchmaking.Ticket, error) { return other.Find(ctx, found) },
	}
	states := func() []matchmaking.TicketState {
		all, err := other.States(t.Context(), h.Name, []string{"waits", "a", "nobody"})
		require.NoError(t, err)
		return all
	}

	replica.Pause(t)
	storetest.RequireNotReplicated(t,
		func(ctx context.Context) error { return h.AssignMatches(ctx, "token", match)[0].Err })
	for _, read := range reads {
		storetest.RequireNotReplicated(t, func(ctx context.Context) error { return storagetest.ErrorOf(read(ctx)) })
	}
	early := states()
	require.Positive(t, early[0].Remaining, "a ticket that waits is read without replicas")
	require.False(t, early[0].Unconfirmed)
	require.Equal(t, matchmaking.TicketState{Created: early[1].Created, Unconfirmed: true}, early[1])
	require.NotZero(t, early[1].Created)
	require.Zero(t, early[2])

	replica.Resume(t)
	require.NoError(t, h.do(t, "PEXPIRE", h.k().matched(), "3600000").Error())
	for name, read := range reads {
		ticket, err := read(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, "m1", ticket.Assignment.MatchID, name)
	}
	require.Greater(t, h.count(t, "PTTL", h.k().matched()), 3600000, "the write that is waited for")
	require.Equal(t, matchmaking.TicketState{Created: early[1].Created, Content: string(match.Assignments[0].Content)},
		states()[1])

	two := New(h.store.conn,
		Options{Confirmations: 2, Replicas: &redis.Options{URL: replica.URL(), Logger: h.store.conn.Logger()}})
	t.Cleanup(two.Close)
	storetest.WaitFor(t, "a ticket to be read from the replica", func() bool {
		read(t, two, h.Name, "waits")
		return readOnly(t, replica) > 0
	})
	storetest.RequireNotReplicated(t,
		func(ctx context.Context) error { return storagetest.ErrorOf(two.Ticket(ctx, h.Name, "a")) })
}

// Matches that are handed out, and assignments of a queue's user, count only once a replica has them.
func TestHandOutsWaitForReplicas(t *testing.T) {
	t.Parallel()
	h, replica, _ := confirmedHall(t)
	ends := make(chan string, 10)
	t.Cleanup(h.ListenAssigned(h.Name, matchmaking.AssignedListener{
		Confirmed: func() { ends <- "" }, Interrupted: func() {},
		Ended: func(e matchmaking.TicketEnd) { ends <- strings.Clone(e.ID + e.Content) },
	}))
	require.Empty(t, <-ends)
	h.Add(t, "a", "b", "c")
	b := h.Backfill(t, queuetest.LongTTL)
	given := h.HandOutRequest(queuetest.Tickets("a"), queuetest.For(&b, "b"))
	handOut := func(ctx context.Context) error {
		o := h.HandOut(ctx, given)
		return errors.Join(o[0].Err, o[1].Err)
	}
	acknowledgement := h.AcknowledgeRequest(b.ID)
	acknowledge := func(ctx context.Context) error {
		done, err := h.AcknowledgeBackfill(ctx, acknowledgement)
		if err == nil && len(done.Tickets) != 1 {
			return fmt.Errorf("acknowledged %+v", done)
		}
		return err
	}
	match := h.Match("m", "c")
	assign := func(ctx context.Context) error {
		return h.Assign(ctx, matchmaking.AssignRequest{Queue: h.Name, Token: "token", Any: true, Keep: queuetest.LongKeep,
			Matches: []matchmaking.AssignMatch{match}})[0].Err
	}
	for _, step := range []struct {
		call     func(ctx context.Context) error
		notified string // the notification of it
	}{{handOut, ""}, {acknowledge, `b{"ticketId":"b"`}, {assign, "c" + string(match.Assignments[0].Content)}} {
		replica.Pause(t)
		storetest.RequireNotReplicated(t, step.call)
		require.Empty(t, ends, "no player is told of what replicas don't have")
		replica.Resume(t)
		require.NoError(t, step.call(t.Context()), "a repetition")
		if step.notified != "" {
			require.Contains(t, <-ends, step.notified)
		}
	}
}
