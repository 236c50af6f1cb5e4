package queues

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

// TestQueueSlotMove covers queues whose slots move. Its parts run one after the other, like those of TestSlotMove.
func TestQueueSlotMove(t *testing.T) {
	t.Parallel()
	c := storetest.StartTwoNodes(t)
	for _, op := range append(movingQueueOperations, movingBackfillOperations...) { //nolint:paralleltest // see above
		t.Run(op.name, func(t *testing.T) { movedHalfWay(t, c, op) })
	}
	t.Run("under load", func(t *testing.T) { queueUnderLoad(t, c) })
}

// movingQueueOperation is an operation on queues with partially moved keys. Each has the tickets free, mine and
// matched; mine is claimed by the token, and matched is assigned.
type movingQueueOperation struct {
	name    string
	prepare func(t *testing.T, h *hall) (keys []string) // nil: (*hall).prepare
	call    func(ctx context.Context, h *hall) error
	// after fails unless the operation has happened exactly once.
	after func(t *testing.T, h *hall)
}

var movingQueueOperations = []movingQueueOperation{
	{"create", nil, func(ctx context.Context, h *hall) error {
		return storagetest.ErrorOf2(h.Create(ctx, h.Request("new")))
	}, func(t *testing.T, h *hall) {
		require.Equal(t, matchmaking.Searching, h.Status(t, "new"))
		require.Equal(t, 3, h.count(t, "ZCARD", h.k().waiting()))
		require.Equal(t, 4, h.count(t, "XLEN", h.k().changes()))
	}},
	{"claim", nil, func(ctx context.Context, h *hall) error {
		r := matchmaking.ClaimRequest{Queue: h.Name, Token: "other", Fence: h.Fence, Hold: queuetest.LongHold,
			IDs: []string{"free", "mine"}}
		found, err := h.Claim(ctx, r)
		if err == nil && fmt.Sprint(found.IDs, len(found.Held)) != "[free] 1" {
			return fmt.Errorf("claimed %+v", found)
		}
		return err
	}, func(t *testing.T, h *hall) {
		require.Equal(t, matchmaking.Pending, h.Status(t, "free"))
		require.Equal(t, 2, h.count(t, "HLEN", h.k().claims()))
	}},
	{"assign", nil, func(ctx context.Context, h *hall) error {
		o := h.AssignMatches(ctx, "token", h.Match("m2", "mine"))[0]
		if len(o.Conflicts) > 0 {
			return fmt.Errorf("conflicts %v", o.Conflicts)
		}
		return o.Err
	}, func(t *testing.T, h *hall) {
		require.Equal(t, matchmaking.MatchFound, h.Status(t, "mine"))
		require.Equal(t, 2, h.count(t, "XLEN", h.k().outbox()))
		require.Equal(t, 2, h.count(t, "HGET", h.k().stats(), "matched"))
	}},
	{"cancel", nil, func(ctx context.Context, h *hall) error {
		return h.CancelID(ctx, "mine")
	}, func(t *testing.T, h *hall) {
		require.Equal(t, matchmaking.Cancelled, h.Status(t, "mine"))
		require.Equal(t, 4, h.count(t, "XLEN", h.k().changes()))
		require.Equal(t, 1, h.count(t, "HGET", h.k().stats(), "cancelled"))
	}},
	{"cancel of who is matched", nil, func(ctx context.Context, h *hall) error {
		err := h.CancelID(ctx, "matched")
		if err == nil {
			return errors.New("cancelled")
		}
		return storagetest.Ignoring(err, matchmaking.ErrTicketMatched)
	}, func(t *testing.T, h *hall) { require.Equal(t, matchmaking.MatchFound, h.Status(t, "matched")) }},
	{"delete", nil, func(ctx context.Context, h *hall) error {
		return h.DeleteID(ctx, "matched")
	}, func(t *testing.T, h *hall) {
		require.ErrorIs(t, storagetest.ErrorOf(h.Ticket(t.Context(), h.Name, "matched")), matchmaking.ErrNoTicket)
	}},
	{"release", nil, func(ctx context.Context, h *hall) error {
		return h.Release(ctx, h.Name, "token", []string{"free", "mine"})
	}, func(t *testing.T, h *hall) { require.Equal(t, matchmaking.Searching, h.Status(t, "mine")) }},
	{"renew", nil, func(ctx context.Context, h *hall) error {
		return h.Renew(ctx, h.Name, []string{"free", "mine", "matched"})
	}, func(t *testing.T, h *hall) { require.Equal(t, 2, h.count(t, "ZCARD", h.k().expiries())) }},
	{"sweep", nil, func(ctx context.Context, h *hall) error {
		return storagetest.ErrorOf(h.Sweep(ctx, h.Name, []string{"short"}, 10))
	}, func(t *testing.T, h *hall) { require.Equal(t, 2, h.count(t, "ZCARD", h.k().expiries())) }},
	{"lease", nil, func(ctx context.Context, h *hall) error {
		return h.KeepLease(ctx, "lease")
	}, func(t *testing.T, h *hall) { require.NoError(t, h.Resign(t.Context(), "lease")) }},
	{"ticket", nil, func(ctx context.Context, h *hall) error {
		found, err := h.Ticket(ctx, h.Name, "matched")
		if err == nil && (found.Status != matchmaking.MatchFound || found.MatchID != "m1") {
			return fmt.Errorf("read as %+v", found)
		}
		return err
	}, func(*testing.T, *hall) {}},
	{"snapshot", nil, func(ctx context.Context, h *hall) error {
		found, err := h.Snapshot(ctx, matchmaking.WaitingRequest{Queue: h.Name, Fields: matchmaking.FieldsAll})
		if err == nil && (len(found.Tickets) != 2 || len(found.Held) != 1) {
			return fmt.Errorf("a snapshot of %+v", found)
		}
		return err
	}, func(*testing.T, *hall) {}},
	{"changes", nil, func(ctx context.Context, h *hall) error {
		found, err := h.Changes(ctx, matchmaking.ChangesRequest{After: "0-0", Limit: 10})
		if err == nil && len(found.Changes) != 3 {
			return fmt.Errorf("changes %+v", found)
		}
		return err
	}, func(*testing.T, *hall) {}},
	{"outgoing and delivered", nil, func(ctx context.Context, h *hall) error {
		found, err := h.Outgoing(ctx, h.Name, 0, 10)
		if err == nil && len(found) > 0 {
			return h.Delivered(ctx, h.Name, []string{found[0].Entry})
		}
		return err
	}, func(t *testing.T, h *hall) { require.Equal(t, 0, h.count(t, "XLEN", h.k().outbox())) }},
	{"describe", nil, func(ctx context.Context, h *hall) error {
		s, err := h.Describe(ctx, h.Name, 10)
		if err == nil && (s.Searching != 1 || s.Pending != 1 || s.Outgoing != 1 || s.Matched != 1 ||
			len(s.Recent) != 1) {
			return fmt.Errorf("described as %+v", s)
		}
		return err
	}, func(*testing.T, *hall) {}},
}

// movingBackfillOperations have a backfill, a ticket that is associated with it, and the ticket free.
var movingBackfillOperations = []movingQueueOperation{
	{"acknowledge", prepareGame, func(ctx context.Context, h *hall) error {
		r := h.AcknowledgeRequest(h.backfillID())
		r.MatchID = "m2"
		done, err := h.AcknowledgeBackfill(ctx, r)
		if err == nil && len(done.Tickets) != 1 {
			return fmt.Errorf("acknowledged %+v", done)
		}
		return err
	}, func(t *testing.T, h *hall) {
		require.Equal(t, "m2", h.Get(t, "theirs").MatchID)
		require.Equal(t, 2, h.count(t, "XLEN", h.k().outbox()))
	}},
	{"update a backfill", prepareGame, func(ctx context.Context, h *hall) error {
		r := matchmaking.UpdateBackfillRequest{Queue: h.Name, ID: h.backfillID(), Attempt: "a"}
		updated, err := h.UpdateBackfill(ctx, r)
		if err == nil && updated.Generation != 3 {
			return fmt.Errorf("updated %+v", updated)
		}
		return err
	}, func(t *testing.T, h *hall) { require.Equal(t, matchmaking.Searching, h.Status(t, "theirs")) }},
	{"delete a backfill", prepareGame, func(ctx context.Context, h *hall) error {
		return h.DeleteBackfills(ctx, h.Name, []string{h.backfillID()})
	}, func(t *testing.T, h *hall) {
		require.Equal(t, matchmaking.Searching, h.Status(t, "theirs"))
		require.Equal(t, 0, h.count(t, "ZCARD", h.k().backfills()))
	}},
	{"hand out", prepareGame, func(ctx context.Context, h *hall) error {
		r := h.HandOutRequest(queuetest.For(&matchmaking.Backfill{ID: h.backfillID(), Generation: 2}, "free"))
		r.Token = "once"
		return h.HandOut(ctx, r)[0].Err
	}, func(t *testing.T, h *hall) {
		found := h.ReadBackfill(t, h.backfillID())
		require.Equal(t, int64(3), found.Generation)
		require.Equal(t, []string{"theirs", "free"}, found.Tickets)
	}},
	{"release what was handed out", prepareGame, func(ctx context.Context, h *hall) error {
		return h.ReleaseFetched(ctx, h.Name, nil)
	}, func(t *testing.T, h *hall) { require.Equal(t, matchmaking.Searching, h.Status(t, "theirs")) }},
	{"read backfills", prepareGame, func(ctx context.Context, h *hall) error {
		found := 0
		err := h.EachBackfill(ctx, h.Name, func(batch []*matchmaking.Backfill) error {
			found += len(batch)
			return nil
		})
		if err == nil && found != 1 {
			return fmt.Errorf("%d backfills", found)
		}
		return err
	}, func(*testing.T, *hall) {}},
}

// backfillID is the ID of the backfill of prepareGame.
func (h *hall) backfillID() string { return strings.Repeat("0", ulid.EncodedSize) + "." + h.Name }

// prepareGame creates the tickets and the backfill of movingBackfillOperations and returns all keys of the queue.
func prepareGame(t *testing.T, h *hall) []string {
	t.Helper()
	h.Add(t, "free", "theirs", "matched")
	h.Hold(t, "token", "matched")
	h.AssignOne(t, "token", "m1", "matched")
	_, err := h.CreateBackfill(t.Context(), matchmaking.CreateBackfillRequest{Queue: h.Name, ID: h.backfillID(),
		TTL: queuetest.LongTTL, Max: 10})
	require.NoError(t, err)
	h.HandOutAll(t, queuetest.For(&matchmaking.Backfill{ID: h.backfillID(), Generation: 1}, "theirs"))
	k := h.k()
	return []string{
		k.waiting(), k.expiries(), k.proposed(), k.claims(), k.changes(), k.outbox(), k.matched(), k.stats(),
		k.listening(), k.backfills(), k.backfill(h.backfillID()), k.ticket("free"), k.ticket("theirs"),
		k.ticket("matched"),
	}
}

// prepare creates the tickets of movingQueueOperation and returns all keys of the queue.
func (h *hall) prepare(t *testing.T) []string {
	t.Helper()
	h.Add(t, "free", "mine", "matched")
	h.Hold(t, "token", "mine", "matched")
	h.AssignOne(t, "token", "m1", "matched")
	require.NoError(t, h.Lead(t.Context(), "lease", queuetest.LongTTL))
	k := h.k()
	return []string{
		k.waiting(), k.expiries(), k.proposed(), k.claims(), k.changes(), k.outbox(), k.matched(), k.stats(),
		k.director(),
		k.listening(), k.ticket("free"), k.ticket("mine"), k.ticket("matched"), k.assignment("matched"), k.match("m1"),
	}
}

// movedHalfWay makes a call on queues in a half-moved slot: with each single key moved, each single key left, some keys
// moved, and all moved. A call without an answer has changed nothing, and succeeds after the slot has closed.
func movedHalfWay(t *testing.T, c storetest.TwoNodes, op movingQueueOperation) {
	t.Helper()
	conn := c.Connect(t, redis.Options{KeyPrefix: "half:"})
	halls, keys := map[*hall][]string{}, 15
	prepare := func(t *testing.T, h *hall) []string { return h.prepare(t) }
	if op.prepare != nil {
		prepare, keys = op.prepare, 14
	}
	names := c.SameSlot(strings.ReplaceAll(op.name, " ", "-"), 2*keys+3)
	var all []*hall
	for i, name := range names {
		h := newHall(t, conn, c.Direct)
		h.Name = name
		created := prepare(t, h)
		require.Len(t, created, keys)
		for at, key := range created {
			alone, stays := at == i, i >= keys && i < 2*keys && at != i-keys
			if batch := i >= 2*keys && at%(i-2*keys+1) == 0; alone || stays || batch {
				halls[h] = append(halls[h], key)
			}
		}
		all = append(all, h)
	}
	m := c.OpenMove(t, names[0])
	for _, h := range all {
		for _, key := range halls[h] {
			m.MoveKey(t, key)
		}
	}
	slot := c.SlotOf(names[0])
	before := c.Dump(t, slot)
	errs := storetest.AtOnce(all, func(h *hall) error { return op.call(storetest.Shortly(t), h) })
	after, answered := c.Dump(t, slot), 0
	for i, h := range all {
		if errs[i] == nil {
			answered++
			continue
		}
		storetest.RequireUnavailable(t, errs[i], "%s %d", op.name, i)
		require.Equal(t, h.of(before), h.of(after), "%s %d changed something and wasn't answered", op.name, i)
	}
	t.Logf("%d of %d were answered", answered, len(all))
	m.CloseSlot(t)
	for i, err := range storetest.AtOnce(all, func(h *hall) error { return op.call(t.Context(), h) }) {
		require.NoError(t, err, "%s %d", op.name, i)
		op.after(t, all[i])
	}
}

// of returns the keys of a dump that belong to the hall's queue.
func (h *hall) of(dump map[string]string) map[string]string {
	found := map[string]string{}
	for name, value := range dump {
		if strings.Contains(name, h.k().base+".") {
			found[name] = value
		}
	}
	return found
}

// queueUnderLoad moves a queue back and forth while tickets are created, cancelled and matched in pairs: each ticket is
// in one match or was cancelled, and each match's assignments are in the outbox once.
func queueUnderLoad(t *testing.T, c storetest.TwoNodes) {
	t.Helper()
	conn := c.Connect(t, redis.Options{KeyPrefix: "load:", Timeout: time.Minute})
	h := newHall(t, conn, c.Direct)
	const players, moves = 300, 4
	var created, moved atomic.Int64
	stop := make(chan struct{})
	var g errgroup.Group
	for worker := range 3 {
		g.Go(func() error {
			for i := 0; i < players || moved.Load() < moves; i++ {
				id := fmt.Sprintf("w%d-%d", worker, i)
				if err := storagetest.ErrorOf2(h.Create(t.Context(), h.Request(id))); err != nil {
					return err
				}
				created.Add(1)
				if i%7 == 0 {
					if err := storagetest.Ignoring(h.CancelID(t.Context(), id),
						matchmaking.ErrTicketMatched); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	var directors errgroup.Group
	for d := range 2 {
		directors.Go(func() error { return h.matchOldest(t.Context(), d, stop) })
	}
	for range moves {
		c.Move(t, h.Name)
		moved.Add(1)
	}
	require.NoError(t, g.Wait())
	close(stop)
	require.NoError(t, directors.Wait())

	state, err := h.Describe(t.Context(), h.Name, 10)
	require.NoError(t, err)
	waiting := state.Searching + state.Pending
	require.LessOrEqual(t, waiting, 3, "what is left is less than a pair of each director")
	require.Equal(t, created.Load(), state.Matched+state.Cancelled+int64(waiting))
	require.Equal(t, int(state.Matched), state.Outgoing)
	entries, err := h.Outgoing(t.Context(), h.Name, 0, 1_000_000)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, e := range entries {
		require.False(t, seen[e.TicketID], "%s is in two matches", e.TicketID)
		seen[e.TicketID] = true
	}
	t.Logf("%d tickets, %d matched, %d cancelled, %d conflicts", created.Load(), state.Matched, state.Cancelled,
		state.Conflicts)
}

// matchOldest matches the oldest tickets in pairs, until it is stopped and none are left.
func (h *hall) matchOldest(ctx context.Context, director int, stop chan struct{}) error {
	for round := 0; ; round++ {
		stopped := false
		select {
		case <-stop:
			stopped = true
		default:
		}
		name := fmt.Sprintf("d%d-%d", director, round)
		r := matchmaking.ClaimRequest{Queue: h.Name, Token: name, Hold: queuetest.LongHold, Limit: 10}
		claimed, err := h.Claim(ctx, r)
		if err != nil {
			return err
		}
		var matches []matchmaking.AssignMatch
		for i := 0; i+1 < len(claimed.IDs); i += 2 {
			matches = append(matches, h.Match(name+"-"+strconv.Itoa(i), claimed.IDs[i], claimed.IDs[i+1]))
		}
		for _, o := range h.AssignMatches(ctx, name, matches...) {
			if o.Err != nil {
				return o.Err
			}
		}
		if err := h.Release(ctx, h.Name, name, claimed.IDs); err != nil {
			return err
		}
		if stopped && len(claimed.IDs) < 2 {
			return nil
		}
	}
}

// A server that has lost all scripts receives them again.
func TestQueueScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	h := newHall(t, storetest.Connect(t, redis.Options{URL: node.URL()}), node.Client())
	ids := storagetest.Numbered("t", 20)
	h.Add(t, ids...)
	h.Hold(t, "token", ids...)
	require.NoError(t, node.Do(t, "SCRIPT", "FLUSH").Error())
	var matches []matchmaking.AssignMatch
	for i, id := range ids {
		matches = append(matches, h.Match("m"+strconv.Itoa(i), id))
	}
	for _, o := range h.AssignMatches(t.Context(), "token", matches...) {
		require.NoError(t, o.Err)
		require.Len(t, o.Entries, 1)
	}
	require.NoError(t, node.Do(t, "SCRIPT", "FLUSH").Error())
	require.Equal(t, matchmaking.MatchFound, h.Status(t, ids[7]))
}
