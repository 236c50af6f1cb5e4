package queues

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
)

// hall is a queue on a real Redis, and a way to its keys behind the store.
type hall struct {
	*Store
	lookup *Lookup
	direct rueidis.Client
	queue  string
	fence  uint64 // of the lease that lead took last
}

// Lives that no test waits for the end of.
const (
	longTTL  = 10 * time.Minute
	longKeep = time.Minute
	longHold = time.Minute
	shortest = matchmaking.MinLifetime
)

// onEach runs a test on a standalone Redis and on a Cluster.
func onEach(t *testing.T, test func(t *testing.T, h *hall)) {
	t.Helper()
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		conn, node := rig.Standalone(t)
		test(t, newHall(t, conn, node.Client()))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		addrs := redistest.Cluster(t).Addrs()
		conn := rig.Connect(t, redis.Options{URL: strings.Join(addrs, ","), KeyPrefix: redistest.Prefix(t)})
		direct, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs, DisableCache: true})
		require.NoError(t, err)
		t.Cleanup(direct.Close)
		test(t, newHall(t, conn, direct))
	})
}

func newHall(t *testing.T, conn *redis.Conn, direct rueidis.Client) *hall {
	t.Helper()
	s := New(conn, Options{})
	t.Cleanup(s.Close)
	return &hall{Store: s, lookup: NewLookup(conn), direct: direct, queue: "duel"}
}

// k makes the keys of the hall's queue.
func (h *hall) k() keys { return h.keys(h.queue) }

// do runs a command on a key behind the store.
func (h *hall) do(t testing.TB, command, key string, args ...string) rueidis.RedisResult {
	t.Helper()
	words := strings.Fields(command)
	call := h.direct.B().Arbitrary(words...).Keys(key).Args(args...).Build()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return h.direct.Do(ctx, call)
}

func (h *hall) count(t testing.TB, command, key string, args ...string) int {
	t.Helper()
	n, err := h.do(t, command, key, args...).AsInt64()
	require.NoError(t, err, "%s %s", command, key)
	return int(n)
}

func spec(tag string) matchmaking.Spec {
	return matchmaking.Spec{SearchFields: matchmaking.SearchFields{
		Tags: []string{tag}, DoubleArgs: matchmaking.Doubles{"skill": 1500.5}, StringArgs: map[string]string{"language": "ja"},
	}}
}

func (h *hall) request(id string) matchmaking.CreateRequest {
	return matchmaking.CreateRequest{
		Queue: h.queue, ID: id, Attempt: ulid.Make().String(), Spec: spec(id), TTL: longTTL, Keep: longKeep,
	}
}

// lead takes the lease of the queue's director, which needs a ticket.
func (h *hall) lead(ctx context.Context, token string, ttl time.Duration) (err error) {
	h.fence, err = h.Leases().Acquire(ctx, lease.Request{Name: h.queue, Token: token, TTL: ttl})
	return err
}

// keepLease renews it.
func (h *hall) keepLease(ctx context.Context, token string) error {
	return h.Leases().Renew(ctx, []lease.Request{{Name: h.queue, Token: token, TTL: longTTL}})[0]
}

func (h *hall) resign(ctx context.Context, token string) error {
	return h.Leases().Release(ctx, h.queue, token)
}

// claimToken returns the token of a claim by who took the lease last.
func (h *hall) claimToken() string { return strconv.FormatUint(h.fence, 10) + ".1" }

// create makes tickets that live long.
func (h *hall) create(t testing.TB, ids ...string) {
	t.Helper()
	for _, id := range ids {
		_, created, err := h.Create(t.Context(), h.request(id))
		require.NoError(t, err)
		require.True(t, created, id)
	}
}

func numbered(first string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = first + strconv.Itoa(i)
	}
	return ids
}

func (h *hall) ticket(t testing.TB, id string) matchmaking.Ticket {
	t.Helper()
	found, err := h.Ticket(t.Context(), h.queue, id)
	require.NoError(t, err, id)
	return found
}

func (h *hall) status(t testing.TB, id string) matchmaking.Status {
	t.Helper()
	return h.ticket(t, id).Status
}

func (h *hall) claim(t testing.TB, token string, ids ...string) matchmaking.Claimed {
	t.Helper()
	claimed, err := h.Claim(t.Context(), matchmaking.ClaimRequest{Queue: h.queue, Token: token, Hold: longHold, IDs: ids})
	require.NoError(t, err)
	return claimed
}

func (h *hall) hold(t testing.TB, token string, ids ...string) {
	t.Helper()
	require.Equal(t, ids, h.claim(t, token, ids...).IDs)
}

// match gives a match of tickets.
func (h *hall) match(id string, tickets ...string) matchmaking.AssignMatch {
	m := matchmaking.AssignMatch{ID: id}
	for i, ticket := range tickets {
		content, err := json.Marshal(matchmaking.Assignment{
			TicketID: ticket, MatchID: id, Queue: h.queue, Connection: "127.0.0.1:7777", Team: i,
		})
		if err != nil {
			panic(err) // it has nothing that JSON hasn't
		}
		m.Assignments = append(m.Assignments, matchmaking.AssignTicket{ID: ticket, Content: content})
	}
	return m
}

func (h *hall) assign(ctx context.Context, token string, matches ...matchmaking.AssignMatch) []matchmaking.AssignOutcome {
	return h.Assign(ctx, matchmaking.AssignRequest{Queue: h.queue, Token: token, Keep: longKeep, Matches: matches})
}

// assignOne assigns a match, which must be possible.
func (h *hall) assignOne(t testing.TB, token, match string, tickets ...string) matchmaking.AssignOutcome {
	t.Helper()
	outcomes := h.assign(t.Context(), token, h.match(match, tickets...))
	require.Len(t, outcomes, 1)
	require.NoError(t, outcomes[0].Err)
	require.Empty(t, outcomes[0].Conflicts)
	return outcomes[0]
}

func (h *hall) cancel(ctx context.Context, id string) error {
	return h.Cancel(ctx, matchmaking.CancelRequest{Queue: h.queue, ID: id, Keep: longKeep})
}

// dump gives all of the queue's keys that a test names, with their contents.
func (h *hall) dump(t testing.TB, tickets ...string) map[string]string {
	t.Helper()
	k := h.k()
	keys := []string{
		k.waiting(), k.expiries(), k.proposed(), k.claims(), k.changes(), k.outbox(), k.matched(), k.director(),
	}
	for _, id := range tickets {
		keys = append(keys, k.ticket(id), k.assignment(id))
	}
	found := map[string]string{}
	for _, key := range keys {
		value, err := h.do(t, "DUMP", key).ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		require.NoError(t, err)
		found[key] = fmt.Sprintf("%q", value)
	}
	return found
}
