package queues

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

// queueCalls returns all operations on a queue that has the tickets free, mine, matched and theirs, and a backfill, as
// created by prepareAll.
func (h *hall) queueCalls() []storetest.Call {
	return []storetest.Call{
		{Name: "create",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf2(h.Create(ctx, h.Request("new"))) }},
		{Name: "claim", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(h.Claim(ctx, matchmaking.ClaimRequest{Queue: h.Name, Token: "other",
				Hold: queuetest.LongHold, Limit: 10}))
		}},
		{Name: "assign",
			Do: func(ctx context.Context) error { return h.AssignMatches(ctx, "token", h.Match("m2", "mine"))[0].Err }},
		{Name: "put definition", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(
				h.PutDefinition(ctx, matchmaking.PutRequest{Queue: h.Name, Definition: []byte("{}"), Max: 1}))
		}},
		{Name: "ticket",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(h.Ticket(ctx, h.Name, "matched")) }},
		{Name: "create again",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf2(h.Create(ctx, h.Request("mine"))) }},
		{Name: "renew", Do: func(ctx context.Context) error { return h.Renew(ctx, h.Name, []string{"free", "mine"}) }},
		{Name: "snapshot", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(
				h.Snapshot(ctx, matchmaking.WaitingRequest{Queue: h.Name, Fields: matchmaking.FieldsAll}))
		}},
		{Name: "changes", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(h.Changes(ctx, matchmaking.ChangesRequest{After: "0-0", Limit: 10}))
		}},
		{Name: "describe",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(h.Describe(ctx, h.Name, 10)) }},
		{Name: "outgoing",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(h.Outgoing(ctx, h.Name, 0, 10)) }},
		{Name: "definitions", Do: func(ctx context.Context) error { return storagetest.ErrorOf(h.Definitions(ctx)) }},
		{Name: "lease", Do: func(ctx context.Context) error { return h.KeepLease(ctx, "lease") }},
		{Name: "campaign", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(h.store.Leases().Acquire(ctx, lease.Request{Name: h.Name, Token: "lease",
				TTL: queuetest.LongTTL}))
		}},
		{Name: "resign", Do: func(ctx context.Context) error { return h.Resign(ctx, "lease") }},
		{Name: "delivered", Do: func(ctx context.Context) error { return h.Delivered(ctx, h.Name, []string{"1-1"}) }},
		{Name: "sweep",
			Do: func(ctx context.Context) error {
				return storagetest.ErrorOf(h.Sweep(ctx, h.Name, []string{"short"},
					10))
			}},
		{Name: "release",
			Do: func(ctx context.Context) error { return h.Release(ctx, h.Name, "token", []string{"mine"}) }},
		{Name: "cancel", Do: func(ctx context.Context) error { return h.CancelID(ctx, "free") }},
		{Name: "match", Do: func(ctx context.Context) error {
			_, _, err := h.Store.Match(ctx, h.Name, "m1")
			return err
		}},
		{Name: "delete", Do: func(ctx context.Context) error { return h.DeleteID(ctx, "matched") }},
		{Name: "take over", Do: func(ctx context.Context) error {
			fence, err := h.store.Leases().Acquire(ctx, lease.Request{Name: h.Name, Token: "lease",
				TTL: queuetest.LongTTL})
			if err != nil {
				return err
			}
			return storagetest.ErrorOf(h.TakeOver(ctx, h.Name, fence, []string{"mine"}))
		}},
		{Name: "delete definition", Do: func(ctx context.Context) error { return h.DeleteDefinition(ctx, h.Name) }},
		{Name: "new backfill", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(h.CreateBackfill(ctx, matchmaking.CreateBackfillRequest{Queue: h.Name, ID: "new",
				TTL: queuetest.LongTTL, Max: 10}))
		}},
		{Name: "read backfill", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(h.Store.Backfill(ctx, h.Name, h.backfillID()))
		}},
		{Name: "read backfills", Do: func(ctx context.Context) error {
			return h.EachBackfill(ctx, h.Name, func([]*matchmaking.Backfill) error { return nil })
		}},
		{Name: "hand out",
			Do: func(ctx context.Context) error {
				return storagetest.Ignoring(h.HandOut(ctx, h.HandOutRequest(queuetest.Tickets("theirs")))[0].Err,
					matchmaking.ErrNotHandedOut)
			}},
		{Name: "hand out with a backfill", Do: func(ctx context.Context) error {
			return h.HandOut(ctx, h.HandOutRequest(
				queuetest.For(&matchmaking.Backfill{ID: h.backfillID(), Generation: 2})))[0].Err
		}},
		{Name: "update backfill", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(h.UpdateBackfill(ctx, matchmaking.UpdateBackfillRequest{Queue: h.Name,
				ID: h.backfillID(), Attempt: "a"}))
		}},
		{Name: "acknowledge", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(h.AcknowledgeBackfill(ctx, h.AcknowledgeRequest(h.backfillID())))
		}},
		{Name: "release fetched", Do: func(ctx context.Context) error { return h.ReleaseFetched(ctx, h.Name, nil) }},
		{Name: "expire backfills",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(h.ExpireBackfills(ctx, h.Name, 10)) }},
		{Name: "drop changes", Do: func(ctx context.Context) error { return h.DropChanges(ctx, h.Name) }},
		{Name: "delete backfill", Do: func(ctx context.Context) error {
			return h.DeleteBackfills(ctx, h.Name, []string{h.backfillID()})
		}},
	}
}

// prepareAll creates what queueCalls need: also a backfill with the ticket theirs.
func (h *hall) prepareAll(t *testing.T) {
	t.Helper()
	h.prepare(t)
	h.Add(t, "theirs")
	_, err := h.CreateBackfill(t.Context(), matchmaking.CreateBackfillRequest{Queue: h.Name, ID: h.backfillID(),
		TTL: queuetest.LongTTL, Max: 10})
	require.NoError(t, err)
	h.HandOutAll(t, queuetest.For(&matchmaking.Backfill{ID: h.backfillID(), Generation: 1}, "theirs"))
}

// TestNoReplyIsFatal runs all operations and the watch with all error replies of Redis: none is treated as success,
// none blocks a call past its deadline, and all operations work afterwards.
func TestNoReplyIsFatal(t *testing.T) {
	t.Parallel()
	storetest.EachErrorReply(t, func(t *testing.T, f storetest.Faulty, text string) {
		h := newHall(t, f.Conn, f.Node.Client())
		h.prepareAll(t)
		replicated := hallOf(t, New(f.Conn, Options{Confirmations: 1}), f.Node.Client())
		all := h.queueCalls()
		for _, c := range storetest.Only(replicated.queueCalls(), "claim", "assign", "outgoing") {
			c.Name += " replicated"
			all = append(all, c)
		}
		nudges := h.Nudges(t)
		require.True(t, <-nudges)
		f.RequireRefused(t, text, all)
		storetest.WaitFor(t, "the watch to be confirmed again", func() bool { return len(nudges) > 0 && <-nudges })
		h.Add(t, "after")
		require.Equal(t, matchmaking.Searching, h.Status(t, "after"))
	})
}

// A full Redis accepts no tickets and makes no matches, not even in part, but queues can be drained.
func TestQueueOutOfMemory(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	h := newHall(t, storetest.Connect(t, redis.Options{URL: n.URL()}), n.Client())
	h.prepareAll(t)
	h.AddShort(t, "short")
	h.Expires(t, "short")
	all := h.queueCalls()
	storetest.FillUp(t, n)
	before := storetest.Dump(t, n)
	full := []string{"create", "create again", "claim", "assign", "put definition",
		"new backfill", "update backfill", "acknowledge", "hand out", "hand out with a backfill"}
	storetest.RequireEach(t.Context(), t, storetest.Only(all, full...), storetest.RequireFull)
	require.Equal(t, before, storetest.Dump(t, n))
	for _, c := range storetest.AllBut(all, full...) {
		require.NoError(t, c.Do(t.Context()), c.Name)
	}
	state, err := h.Describe(t.Context(), h.Name, 10)
	require.NoError(t, err)
	require.Equal(t, 2, state.Searching, "mine and theirs were released, free was cancelled, short was swept")
	require.Zero(t, state.Backfills)
	require.EqualValues(t, 1, state.Cancelled)
	require.EqualValues(t, 1, state.Expired)

	require.NoError(t, n.Do(t, "DEL", "ballast").Error())
	storetest.RequireEach(t.Context(), t, storetest.Only(all, "create", "claim", "put definition"),
		storetest.RequireFine)
}

// A command that is not permitted for Redis's user is an error, without partial effects.
func TestQueueNotPermitted(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	root := newHall(t, storetest.Connect(t, redis.Options{URL: n.URL()}), n.Client())
	root.prepareAll(t)
	root.AddShort(t, "short")
	root.Expires(t, "short")
	for rights, names := range map[string][]string{ //nolint:paralleltest // they share a server whose keys stay as they are
		"~* &* +@all -spublish": {"create", "assign", "cancel", "new backfill", "update backfill", "delete backfill",
			"acknowledge", "release fetched"},
		"~* +@all -xadd": {"create", "assign", "cancel", "release", "update backfill", "delete backfill", "acknowledge",
			"release fetched"},
		"~* +@all -zadd": {"create", "claim", "renew", "new backfill", "hand out with a backfill", "acknowledge"},
		"~* +@all -zrem": {"create", "assign", "cancel", "release", "sweep", "update backfill", "delete backfill",
			"acknowledge", "release fetched"},
		"~* +@all -hset": {"claim", "new backfill", "update backfill", "hand out with a backfill", "acknowledge"},
		"~* +@all -hdel": {"assign", "cancel", "release", "sweep", "update backfill", "delete backfill", "acknowledge",
			"release fetched"},
		"~* +@all -pexpireat": {"create", "claim", "assign", "cancel", "renew", "sweep", "release", "new backfill",
			"update backfill", "hand out with a backfill", "acknowledge", "release fetched", "delete backfill"},
		"~* +@all -del":      {"delete", "delete backfill"},
		"~* +@all -set":      {"create", "assign", "lease", "campaign"},
		"~* +@all -setrange": {"cancel"},
		"~* +@all -hincrby":  {"assign", "cancel", "sweep"},
		"~* +@all -evalsha":  {"create", "claim", "assign", "ticket", "snapshot", "cancel"},
		"~mm.{other}* +@all": {"create", "claim", "assign", "ticket", "snapshot", "cancel", "changes", "delivered",
			"match"},
		"%R~* +@all": {"create", "claim", "assign", "cancel", "delete", "release", "sweep", "lease",
			"campaign"},
	} {
		t.Run(rights, func(t *testing.T) {
			user := append([]string{"ACL", "SETUSER", "limited", "reset", "on", ">secret"}, strings.Fields(rights)...)
			require.NoError(t, n.Do(t, user...).Error())
			conn := storetest.Connect(t, redis.Options{URL: n.URL(), Username: "limited", Password: "secret",
				Timeout: time.Hour})
			h := newHall(t, conn, n.Client())
			before := storetest.Dump(t, n)
			for _, c := range storetest.Only(h.queueCalls(), names...) {
				err := c.Do(t.Context())
				storetest.RequireUnavailable(t, err, c.Name)
				require.Regexp(t, "NOPERM|can't run this command|ACL failure|can't access", err.Error(), c.Name)
				require.Equal(t, before, storetest.Dump(t, n), c.Name)
			}
		})
	}
}

// A Redis that is killed and restarted loses nothing that it has acknowledged.
func TestQueueRedisRestarts(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, storetest.Durable)
	h := newHall(t, storetest.Connect(t, redis.Options{URL: n.URL(), Timeout: time.Minute}), n.Client())
	h.prepare(t)
	point := h.Whole(t).After
	before := storetest.Dump(t, n)
	nudges := h.Nudges(t)
	require.True(t, <-nudges, "the watch begins")
	n.Kill(t)
	made := make(chan error)
	go func() { made <- storagetest.ErrorOf2(h.Create(t.Context(), h.Request("new"))) }()
	n.Restart(t)
	require.NoError(t, <-made)
	for back := false; !back; back = <-nudges { // the new ticket's notification may precede the watch's confirmation
	}
	require.Equal(t, []string{"new"}, queuetest.ShortForm(h.ChangesAfter(t, point, 10).Changes))
	after := storetest.Dump(t, n)
	for _, id := range []string{"free", "mine", "matched"} {
		require.Equal(t, before[h.k().ticket(id)], after[h.k().ticket(id)])
	}
	for _, id := range []string{"free", "new"} {
		require.Equal(t, matchmaking.Searching, h.Status(t, id))
	}
	h.AssignOne(t, "token", "m2", "mine")
}

// An unknown outcome is an error, and the repeated call returns the outcome.
func TestQueueAssignOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	h := newHall(t, storetest.Connect(t, redis.Options{URL: n.URL(), Timeout: queuetest.Shortest}), n.Client())
	h.Add(t, "a", "b")
	h.Hold(t, "token", "a", "b")
	n.Pause(t)
	matches := []matchmaking.AssignMatch{h.Match("m1", "a"), h.Match("m2", "b")}
	for _, o := range h.AssignMatches(t.Context(), "token", matches...) {
		storetest.RequireUnavailable(t, o.Err)
	}
	n.Resume(t)
	var outcomes []matchmaking.AssignOutcome
	storetest.WaitFor(t, "Redis to answer", func() bool {
		outcomes = h.AssignMatches(t.Context(), "token", matches...)
		return !slices.ContainsFunc(outcomes, func(o matchmaking.AssignOutcome) bool { return o.Err != nil })
	})
	for _, o := range outcomes {
		require.Empty(t, o.Conflicts)
	}
	require.Equal(t, 2, h.count(t, "XLEN", h.k().outbox()), "each once")
}
