package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

const (
	manyQueues = 1000
	// idlePerSecond bounds the commands that a server sends for all of its idle queues.
	idlePerSecond = 5
	// idleBytes bounds the memory of a server for each idle queue.
	idleBytes = 30_000
)

// copied is a rule with which a server has a job that copies messages.
const copied = `[{"pattern":"notifications:topic:.+","deliver":"copies"}]`

// idleCommands are commands that a queue or records may cause. The PING of idle connections isn't one of them.
var idleCommands = []string{"evalsha", "eval", "xread", "xtrim", "zscan", "ssubscribe", "sunsubscribe", "spublish",
	"hgetall"}

// TestManyIdleQueues runs a server with very many queues, with records and a job that copies messages. The number of
// connections to Redis doesn't grow with them, their cost while idle is bounded, each of them works, and deleted queues
// leave nothing behind.
func TestManyIdleQueues(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := startServer(t, "--redis", n.URL(), "--max-queues", strconv.Itoa(manyQueues), "--records", "on", "--channels",
		copied)
	connections, before, lines := redisClients(t, n), s.memory(t), strings.Count(s.metrics(t), "\n")
	admin, err := client.New(s.admin)
	require.NoError(t, err)
	defer admin.Close()
	s.eachQueue(t, func(ctx context.Context, name string) error {
		_, err := admin.PutQueue(ctx, name, json.RawMessage(`{}`))
		return err
	})
	_, err = admin.PutQueue(t.Context(), "one-too-many", json.RawMessage(`{}`))
	require.ErrorIs(t, err, client.ErrTooManyQueues)
	eventually(t, func() bool { return redisTopics(t, n) > manyQueues })
	require.LessOrEqual(t, redisClients(t, n), connections+1, "with a subscription connection at most")
	require.LessOrEqual(t, strings.Count(s.metrics(t), "\n"), lines+50)
	least := math.Inf(1) // after a collection
	require.Eventually(t, func() bool {
		least = min(least, (s.memory(t)-before)/manyQueues)
		return least <= idleBytes
	}, scriptLimit, time.Millisecond)
	t.Logf("%.0f bytes for each queue", least)

	sent, began := idleCalls(t, n), redisTime(t, n)
	const seconds = 4
	eventually(t, func() bool { return redisTime(t, n).Sub(began) > seconds*time.Second })
	took := redisTime(t, n).Sub(began).Seconds()
	require.LessOrEqual(t, float64(idleCalls(t, n)-sent), idlePerSecond*took)

	ctx, cancel := context.WithTimeout(t.Context(), scriptLimit)
	defer cancel()
	for _, name := range []string{"queue-0", "queue-500", "queue-999"} {
		var made []string
		for range 2 {
			ticket, err := s.CreateTicket(ctx, client.NewTicket{Queue: name})
			require.NoError(t, err)
			made = append(made, ticket.ID)
		}
		for _, id := range made {
			_, err := s.AwaitAssignment(ctx, id)
			require.NoError(t, err)
		}
	}
	require.LessOrEqual(t, redisClients(t, n), connections+1)
	require.Contains(t, s.metrics(t), `queue="queue-500"`)
	s.eachQueue(t, func(ctx context.Context, name string) error {
		for {
			err := admin.DeleteQueue(ctx, name)
			// an assignment may not have been removed from the outbox yet
			if !errors.Is(err, client.ErrQueueInUse) || ctx.Err() != nil {
				return err
			}
		}
	})
	eventually(t, func() bool { return !strings.Contains(s.metrics(t), `queue="queue-`) })
}

// eachQueue calls a function for each of many queues, some at the same time.
func (s *serverProcess) eachQueue(t *testing.T, do func(ctx context.Context, name string) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range manyQueues {
		group.Go(func() error { return do(ctx, "queue-"+strconv.Itoa(i)) })
	}
	require.NoError(t, group.Wait())
}

// memory returns the bytes of the objects and stacks that the process has.
func (s *serverProcess) memory(t *testing.T) float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(s.metrics(t)))
	require.NoError(t, err)
	bytes := 0.0
	for _, name := range []string{"go_memstats_heap_alloc_bytes", "go_memstats_stack_inuse_bytes"} {
		require.NotNil(t, families[name], name)
		bytes += families[name].GetMetric()[0].GetGauge().GetValue()
	}
	return bytes
}

func redisClients(t *testing.T, n *redistest.Node) int {
	t.Helper()
	list, err := n.Do(t, "CLIENT", "LIST").ToString()
	require.NoError(t, err)
	return strings.Count(list, "name=tidemark ")
}

func redisTopics(t *testing.T, n *redistest.Node) int {
	t.Helper()
	topics, err := n.Do(t, "PUBSUB", "SHARDCHANNELS").AsStrSlice()
	require.NoError(t, err)
	return len(topics)
}

func redisTime(t *testing.T, n *redistest.Node) time.Time {
	t.Helper()
	at, err := n.Do(t, "TIME").AsIntSlice()
	require.NoError(t, err)
	return time.Unix(at[0], at[1]*1000)
}

// idleCalls counts the calls of commands that a queue may cost. Scripts run no such commands.
func idleCalls(t *testing.T, n *redistest.Node) int {
	t.Helper()
	return n.Calls(t, idleCommands...)
}
