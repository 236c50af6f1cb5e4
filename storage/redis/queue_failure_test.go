package redis

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// queueCalls gives all operations on a queue that has the tickets free, mine and matched, as prepare makes them.
func (h *hall) queueCalls() []call {
	lease := matchmaking.LeaseRequest{Queue: h.queue, Lease: "lease", TTL: longTTL}
	return []call{
		{"create", func(ctx context.Context) error { return errorOf2(h.Create(ctx, h.request("new"))) }},
		{"claim", func(ctx context.Context) error {
			return errorOf(h.Claim(ctx, matchmaking.ClaimRequest{Queue: h.queue, Token: "other", Hold: longHold, Limit: 10}))
		}},
		{"assign", func(ctx context.Context) error { return h.assign(ctx, "token", h.match("m2", "mine"))[0].Err }},
		{"put definition", func(ctx context.Context) error {
			return errorOf(h.PutDefinition(ctx, matchmaking.PutRequest{Queue: h.queue, Definition: []byte("{}"), Most: 1}))
		}},
		{"ticket", func(ctx context.Context) error { return errorOf(h.Ticket(ctx, h.queue, "matched")) }},
		{"create again", func(ctx context.Context) error { return errorOf2(h.Create(ctx, h.request("mine"))) }},
		{"renew", func(ctx context.Context) error { return h.Renew(ctx, h.queue, []string{"free", "mine"}) }},
		{"snapshot", func(ctx context.Context) error { return errorOf(h.Snapshot(ctx, h.queue)) }},
		{"changes", func(ctx context.Context) error {
			return errorOf(h.Changes(ctx, matchmaking.ChangesRequest{Queue: h.queue, After: "0-0", Limit: 10}))
		}},
		{"describe", func(ctx context.Context) error { return errorOf(h.Describe(ctx, h.queue, 10)) }},
		{"outgoing", func(ctx context.Context) error { return errorOf(h.Outgoing(ctx, h.queue, 0, 10)) }},
		{"definitions", func(ctx context.Context) error { return errorOf(h.Definitions(ctx)) }},
		{"lease", func(ctx context.Context) error { return errorOf(h.Lease(ctx, lease)) }},
		{"campaign", func(ctx context.Context) error { return errorOf(h.Campaign(ctx, lease)) }},
		{"resign", func(ctx context.Context) error { return h.Resign(ctx, h.queue, "lease") }},
		{"delivered", func(ctx context.Context) error { return h.Delivered(ctx, h.queue, []string{"1-1"}) }},
		{"sweep", func(ctx context.Context) error { return errorOf(h.Sweep(ctx, h.queue, []string{"short"}, 10)) }},
		{"release", func(ctx context.Context) error { return h.Release(ctx, h.queue, "token", []string{"mine"}) }},
		{"cancel", func(ctx context.Context) error { return h.cancel(ctx, "free") }},
		{"take over", func(ctx context.Context) error {
			if err := errorOf(h.Lease(ctx, lease)); err != nil {
				return err
			}
			return errorOf(h.TakeOver(ctx, h.queue, "lease", []string{"mine"}))
		}},
		{"delete definition", func(ctx context.Context) error { return h.DeleteDefinition(ctx, h.queue) }},
	}
}

// A full Redis takes no ticket and makes no match, whole or in part, but it can be drained.
func TestQueueOutOfMemory(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	h := newHall(t, openAt(t, Options{URL: n.URL()}), n.Client())
	h.prepare(t)
	r := h.request("short")
	r.TTL = shortest
	require.NoError(t, errorOf2(h.Create(t.Context(), r)))
	require.Eventually(t, func() bool { return h.status(t, "short") == matchmaking.Expired }, patience, shortest/10)
	all := h.queueCalls()
	fillUp(t, n)
	before := dumpOf(t, n)
	full := []string{"create", "create again", "claim", "assign", "put definition"}
	requireEach(t.Context(), t, only(all, full...), requireFull)
	require.Equal(t, before, dumpOf(t, n))
	for _, c := range allBut(all, full...) {
		require.NoError(t, c.do(t.Context()), c.name)
	}
	state, err := h.Describe(t.Context(), h.queue, 10)
	require.NoError(t, err)
	require.Equal(t, 1, state.Searching, "mine was released, free was cancelled, short was swept")
	require.EqualValues(t, 1, state.Cancelled)
	require.EqualValues(t, 1, state.Expired)

	require.NoError(t, n.Do(t, "DEL", "ballast").Error())
	requireEach(t.Context(), t, only(all, "create", "claim", "put definition"), requireFine)
}

// What Redis's user may not do is said so, and isn't half done.
func TestQueueNotPermitted(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	root := newHall(t, openAt(t, Options{URL: n.URL()}), n.Client())
	root.prepare(t)
	r := root.request("short")
	r.TTL = shortest
	require.NoError(t, errorOf2(root.Create(t.Context(), r)))
	require.Eventually(t, func() bool { return root.status(t, "short") == matchmaking.Expired }, patience, shortest/10)
	for rights, names := range map[string][]string{ //nolint:paralleltest // they share a server whose keys must not change
		"~* &* +@all -spublish": {"create", "cancel"},
		"~* +@all -xadd":        {"create", "assign", "cancel", "release"},
		"~* +@all -zadd":        {"create", "claim", "renew"},
		"~* +@all -zrem":        {"create", "assign", "cancel", "release", "sweep"},
		"~* +@all -hset":        {"claim"},
		"~* +@all -hdel":        {"assign", "cancel", "release", "sweep"},
		"~* +@all -pexpireat":   {"create", "claim", "assign", "cancel", "renew", "sweep"},
		"~* +@all -set":         {"create", "assign", "lease", "campaign"},
		"~* +@all -setrange":    {"cancel"},
		"~* +@all -hincrby":     {"assign", "cancel", "sweep"},
		"~* +@all -evalsha":     {"create", "claim", "assign", "ticket", "snapshot", "cancel"},
		"~mm.{other}* +@all":    {"create", "claim", "assign", "ticket", "snapshot", "cancel", "changes", "delivered"},
		"%R~* +@all":            {"create", "claim", "assign", "cancel", "release", "sweep", "lease", "campaign"},
	} {
		t.Run(rights, func(t *testing.T) {
			user := append([]string{"ACL", "SETUSER", "limited", "reset", "on", ">secret"}, strings.Fields(rights)...)
			require.NoError(t, n.Do(t, user...).Error())
			s := openAt(t, Options{URL: n.URL(), Username: "limited", Password: "secret", Timeout: time.Hour})
			h := newHall(t, s, n.Client())
			before := dumpOf(t, n)
			for _, c := range only(h.queueCalls(), names...) {
				err := c.do(t.Context())
				requireUnavailable(t, err, c.name)
				require.Equal(t, codeNoPermission, code(err), c.name)
				require.Equal(t, before, dumpOf(t, n), c.name)
			}
		})
	}
}

// A Redis that goes away in the middle of everything loses nothing that it has answered.
func TestQueueRedisRestarts(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, durable)
	h := newHall(t, openAt(t, Options{URL: n.URL(), Timeout: time.Minute}), n.Client())
	h.prepare(t)
	point := h.snapshot(t).After
	before := dumpOf(t, n)
	nudges := h.watch(t)
	require.True(t, <-nudges, "the watch begins")
	n.Kill(t)
	made := make(chan error)
	go func() { made <- errorOf2(h.Create(t.Context(), h.request("new"))) }()
	n.Restart(t)
	require.NoError(t, <-made)
	require.True(t, <-nudges, "a watch finds its way back")
	require.Equal(t, []string{"new"}, told(h.changes(t, point, 10).Changes))
	after := dumpOf(t, n)
	for _, id := range []string{"free", "mine", "matched"} {
		require.Equal(t, before[h.k().ticket(id)], after[h.k().ticket(id)])
	}
	for _, id := range []string{"free", "new"} {
		require.Equal(t, matchmaking.Searching, h.status(t, id))
	}
	h.assignOne(t, "token", "m2", "mine")
}

// An outcome that isn't known is said so, and asking again tells.
func TestQueueAssignOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	h := newHall(t, openAt(t, Options{URL: n.URL(), Timeout: shortest}), n.Client())
	h.create(t, "a", "b")
	h.hold(t, "token", "a", "b")
	n.Pause(t)
	matches := []matchmaking.AssignMatch{h.match("m1", "a"), h.match("m2", "b")}
	for _, o := range h.assign(t.Context(), "token", matches...) {
		requireUnavailable(t, o.Err)
	}
	n.Resume(t)
	var outcomes []matchmaking.AssignOutcome
	waitFor(t, "Redis to answer", func() bool {
		outcomes = h.assign(t.Context(), "token", matches...)
		return !slices.ContainsFunc(outcomes, func(o matchmaking.AssignOutcome) bool { return o.Err != nil })
	})
	for _, o := range outcomes {
		require.Empty(t, o.Conflicts)
	}
	require.Equal(t, 2, h.count(t, "XLEN", h.k().outbox()), "each once")
}
