package queues

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// withReplicas returns a store of the hall's queues that reads from replicas.
func (h *hall) withReplicas(t *testing.T, o redis.Options) *Store {
	t.Helper()
	o.Logger = h.store.conn.Logger()
	q := New(h.store.conn, Options{Replicas: &o})
	t.Cleanup(q.Close)
	return q
}

// read reads a ticket that must exist.
func read(t testing.TB, q *Store, queue, id string) matchmaking.Ticket {
	t.Helper()
	found, err := q.Ticket(t.Context(), queue, id)
	require.NoError(t, err)
	return found
}

// readOnly counts the scripts that a server ran as read-only ones. Only replicas receive these.
func readOnly(t testing.TB, n *redistest.Node) int {
	t.Helper()
	return n.Calls(t, "evalsha_ro", "eval_ro")
}

func TestQueueReadsAReplica(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, primary)
	h := newHall(t, storetest.Connect(t, redis.Options{URL: primary.URL()}), primary.Client())
	q := h.withReplicas(t, redis.Options{URL: replica.URL()})
	h.Add(t, "a", "b")
	h.Hold(t, "token", "b")
	h.AssignOne(t, "token", "m1", "b")
	storetest.WaitFor(t, "the replica to have all",
		func() bool { return len(storetest.Dump(t, replica)) == len(storetest.Dump(t, primary)) })
	storetest.WaitFor(t, "a ticket to be read from the replica", func() bool {
		require.Equal(t, h.Get(t, "a"), read(t, q, h.Name, "a"))
		return readOnly(t, replica) > 0
	})
	require.Equal(t, h.Get(t, "b"), read(t, q, h.Name, "b"))
	_, err := q.Ticket(t.Context(), h.Name, "nobody")
	require.ErrorIs(t, err, matchmaking.ErrNoTicket)

	require.NoError(t, replica.Do(t, "REPLICAOF", "127.0.0.1", "1").Error()) // it no longer replicates
	h.Add(t, "new")
	require.Equal(t, h.Get(t, "new"), read(t, q, h.Name, "new"), "what the replica hasn't is read from the primary")
	require.NoError(t, h.CancelID(t.Context(), "a"))
	require.Equal(t, matchmaking.Searching, read(t, q, h.Name, "a").Status, "it is the replica that is read")

	replica.Kill(t)
	require.Equal(t, matchmaking.Cancelled, read(t, q, h.Name, "a").Status,
		"the primary stands in for a replica that is gone")
	require.Equal(t, 0, readOnly(t, primary))
	replica.Restart(t)
	require.NoError(t,
		replica.Do(t, "REPLICAOF", "127.0.0.1", strings.TrimPrefix(primary.Addr(), "127.0.0.1:")).Error())
	storetest.WaitFor(t, "a ticket to be read from the replica again", func() bool {
		require.Equal(t, h.Get(t, "new"), read(t, q, h.Name, "new"))
		return readOnly(t, replica) > 0
	})
}

// A snapshot contains all tickets of the primary, although most contents come from a replica, which lags behind.
func TestQueueSnapshotOfAReplica(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, primary)
	h := newHall(t, storetest.Connect(t, redis.Options{URL: primary.URL()}), primary.Client())
	q := h.withReplicas(t, redis.Options{URL: replica.URL()})
	h.Add(t, "kept", "cancelled", "assigned", "again", "held")
	storetest.WaitFor(t, "the replica to have all",
		func() bool { return len(storetest.Dump(t, replica)) == len(storetest.Dump(t, primary)) })
	require.NoError(t, replica.Do(t, "REPLICAOF", "127.0.0.1", "1").Error()) // it no longer replicates
	require.NoError(t, h.CancelID(t.Context(), "cancelled"))
	h.Hold(t, "token", "assigned", "held")
	h.AssignOne(t, "token", "m1", "assigned")
	require.NoError(t, h.CancelID(t.Context(), "again"))
	require.NoError(t, h.do(t, "DEL", h.k().ticket("again")).Error())
	h.Add(t, "again", "new")
	storetest.WaitFor(t, "a ticket to be read from the replica", func() bool {
		read(t, q, h.Name, "kept")
		return readOnly(t, replica) > 0
	})
	require.NoError(t, replica.Do(t, "CONFIG", "RESETSTAT").Error())
	want := h.Whole(t)
	found, err := q.Snapshot(t.Context(), matchmaking.WaitingRequest{Queue: h.Name, Fields: matchmaking.FieldsAll})
	require.NoError(t, err)
	want.Now = found.Now
	require.Equal(t, want, found)
	var ids []string
	for _, ticket := range found.Tickets {
		ids = append(ids, ticket.ID)
	}
	require.Equal(t, []string{"kept", "held", "again", "new"}, ids)
	require.Positive(t, replica.Calls(t, "mget"), "it is the replica that is read")
}

// An unresponsive replica delays one read slightly, and no others.
func TestQueueReadsDespiteASilentReplica(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, primary)
	h := newHall(t, storetest.Connect(t, redis.Options{URL: primary.URL()}), primary.Client())
	q := h.withReplicas(t, redis.Options{URL: replica.URL()})
	h.Add(t, "a")
	storetest.WaitFor(t, "a ticket to be read from the replica", func() bool {
		read(t, q, h.Name, "a")
		return readOnly(t, replica) > 0
	})
	replica.Pause(t)
	for range 3 {
		require.Equal(t, h.Get(t, "a"), read(t, q, h.Name, "a"))
	}
	replica.Resume(t)
	unreachable := h.withReplicas(t, redis.Options{URL: "127.0.0.1:1"})
	for range 3 {
		require.Equal(t, h.Get(t, "a"), read(t, unreachable, h.Name, "a"))
	}
}

func TestQueueReadsReplicasOfACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, redistest.Options{Primaries: 3, Replicas: 1})
	o := redis.Options{URL: strings.Join(nodes.Addrs(), ",")}
	direct, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: nodes.Addrs(), DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(direct.Close)
	h := newHall(t, storetest.Connect(t, o), direct)
	q := h.withReplicas(t, o)
	h.Add(t, "a")
	slot := nodes.Slot("{" + h.Name + "}")
	storetest.WaitFor(t, "a ticket to be read from the replica", func() bool {
		require.Equal(t, h.Get(t, "a"), read(t, q, h.Name, "a"))
		return readOnly(t, nodes.Replica(t, slot)) > 0
	})
	_, err = q.Ticket(t.Context(), h.Name, "nobody")
	require.ErrorIs(t, err, matchmaking.ErrNoTicket)
}

func TestQueueReadsReplicasBehindSentinel(t *testing.T) {
	t.Parallel()
	group := redistest.StartSentinel(t, redistest.Options{})
	o := redis.Options{URL: strings.Join(group.Addrs(), ","), Sentinel: redis.Sentinel{Master: redistest.MasterName},
		Timeout: time.Minute}
	primary, replica := group.Nodes()[0], group.Nodes()[1]
	h := newHall(t, storetest.Connect(t, o), primary.Client())
	q := h.withReplicas(t, o)
	h.Add(t, "a")
	storetest.WaitFor(t, "a ticket to be read from the replica", func() bool {
		require.Equal(t, h.Get(t, "a"), read(t, q, h.Name, "a"))
		return readOnly(t, replica) > 0
	})
	_, promoted := group.Failover(t) // now without a replica
	require.Equal(t, replica, promoted)
	require.Equal(t, matchmaking.Searching, read(t, q, h.Name, "a").Status)
	h.Add(t, "b")
	require.Equal(t, matchmaking.Searching, read(t, q, h.Name, "b").Status)
}
