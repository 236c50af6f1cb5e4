package channels

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// A publish to a half moved slot writes nothing, whichever keys have moved, and returns when the slot closes or its
// time limit has passed.
func publishNeverHalfWrites(t *testing.T, c storetest.TwoNodes) {
	t.Helper()
	registry := prometheus.NewRegistry()
	s := openOn(t, c, redis.Options{Metrics: registry})
	all := everySubset(c, s, "publish", map[string]lore{"one message": {messages: 1}})
	for _, h := range all {
		h.make(t, s, c.Direct, h.name)
	}
	m, mFresh := c.OpenMove(t, "publish"), c.OpenMove(t, "fresh")
	for _, h := range all {
		h.move(t, s, m.MoveKey)
	}

	before := c.Dump(t, c.SlotOf("publish"))
	for about, drafts := range map[string][]channel.Draft{
		"one":                 drafted("m2"),
		"a batch":             drafted("m2", "m3", "m4"),
		"a batch, partly old": drafted("m1", "m2", "m2"),
	} {
		ctx := storetest.Shortly(t)
		for _, err := range storetest.AtOnce(all, func(h halfMoved) error {
			_, err := s.Publish(ctx, channel.PublishRequest{Channel: h.name, Drafts: drafts, Policy: h.policy()})
			return err
		}) {
			storetest.RequireUnavailable(t, err, about)
		}
		require.Equal(t, before, c.Dump(t, c.SlotOf("publish")), about)
	}
	_, err := s.Publish(storetest.Shortly(t), publishOf("fresh", "m1"))
	storetest.RequireUnavailable(t, err)
	making := publishOf("fresh", "m1")
	making.Subscriber = reader
	storetest.RequireUnavailable(t, s.PublishEach(storetest.Shortly(t), []channel.PublishRequest{making})[0].Err)
	require.Empty(t, c.Dump(t, c.SlotOf("fresh")))

	retried := storetest.Counted(t, registry, "tidemark_redis_retries_total")
	published := make(chan []error)
	go func() {
		published <- storetest.AtOnce(all, func(h halfMoved) error { return publishSecond(t.Context(), s, h.name, 2) })
	}()
	storetest.WaitFor(t, "all publishes to be tried again", func() bool {
		return storetest.Counted(t, registry, "tidemark_redis_retries_total") > retried+float64(len(all))
	})
	m.CloseSlot(t)
	mFresh.CloseSlot(t)
	for i, err := range <-published {
		require.NoError(t, err, all[i].about)
	}
	require.NoError(t, publishSecond(t.Context(), s, "fresh", 1))
	for _, h := range all {
		b := fetchOnce(t, s, h)
		require.Len(t, b.Messages, 2, h.about)
		require.Equal(t, "m1", b.Messages[0].ID, h.about)
		require.Equal(t, "m2", b.Messages[1].ID, h.about)
	}
}

func publishSecond(ctx context.Context, s *Store, name string, want int64) error {
	published, err := s.Publish(ctx, publishOf(name, "m2"))
	if err != nil {
		return err
	}
	if p := published[0]; int64(p.Clock) != want || p.Duplicate {
		return fmt.Errorf("%s: published as %+v", name, p)
	}
	return nil
}

// A message published before is reported as a duplicate, or refused for now.
func publishOfDuplicates(t *testing.T, c storetest.TwoNodes) {
	t.Helper()
	s := openOn(t, c, redis.Options{})
	all := everySubset(c, s, "duplicate", map[string]lore{"one message": {messages: 1}})
	for _, h := range all {
		h.make(t, s, c.Direct, h.name)
	}
	m := c.OpenMove(t, "duplicate")
	for _, h := range all {
		h.move(t, s, m.MoveKey)
		if h.subset&1 != 0 { // the clock moves
			m.MoveKey(t, s.keys(h.name).MessageID("m1"))
		}
	}
	before := c.Dump(t, c.SlotOf("duplicate"))
	ctx := storetest.Shortly(t)
	repeat := func(h halfMoved) error {
		published, err := s.Publish(ctx, publishOf(h.name, "m1"))
		if err == nil && (!published[0].Duplicate || published[0].Clock != 1) {
			return fmt.Errorf("published as %+v", published[0])
		}
		return err
	}
	answered := 0
	for i, err := range storetest.AtOnce(all, repeat) {
		if err == nil {
			answered++
			continue
		}
		storetest.RequireUnavailable(t, err, all[i].about)
	}
	require.NotZero(t, answered, "where all keys are on one side nothing is in the way")
	require.Equal(t, before, c.Dump(t, c.SlotOf("duplicate")))
	m.CloseSlot(t)
	ctx = t.Context()
	for i, err := range storetest.AtOnce(all, repeat) {
		require.NoError(t, err, all[i].about)
	}
}

// A producer isn't taken for a new one while what it has published is on the other node.
func producersInHalfMovedSlot(t *testing.T, c storetest.TwoNodes) {
	t.Helper()
	s := openOn(t, c, redis.Options{})
	lore{}.make(t, s, c.Direct, "producers")
	first := publishOf("producers", "m1")
	first.Producer = &channel.Producer{ID: "p"}
	_, err := s.Publish(t.Context(), first)
	require.NoError(t, err)
	m, ch := c.OpenMove(t, "producers"), s.keys("producers")
	for _, key := range []string{ch.Clock(), ch.Epoch(), ch.Subscribers(), ch.MessageID("m1")} {
		m.MoveKey(t, key)
	}
	before := c.Dump(t, c.SlotOf("producers"))
	end := func(by channel.Producer) error {
		_, err := s.CloseChannel(storetest.Shortly(t), channel.CloseRequest{Channel: "producers", Policy: first.Policy,
			Producer: &by})
		return err
	}
	storetest.RequireUnavailable(t, end(channel.Producer{ID: "p", Sequence: 1}))
	storetest.RequireUnavailable(t, end(channel.Producer{ID: "another"}))
	_, err = s.Publish(storetest.Shortly(t), first)
	storetest.RequireUnavailable(t, err)
	require.Equal(t, before, c.Dump(t, c.SlotOf("producers")))
	m.CloseSlot(t)
	again, err := s.Publish(t.Context(), first)
	require.NoError(t, err)
	require.True(t, again[0].Duplicate)
	require.NoError(t, end(channel.Producer{ID: "p", Sequence: 1}))
}

func drafted(ids ...string) []channel.Draft {
	drafts := make([]channel.Draft, len(ids))
	for i, id := range ids {
		drafts[i] = channel.Draft{ID: id, Content: []byte(`{"of":"` + id + `"}`)}
	}
	return drafts
}

// A call follows few redirections between two nodes that each redirect to the other one.
func nodesDisagree(t *testing.T, c storetest.TwoNodes) {
	t.Helper()
	registry := prometheus.NewRegistry()
	s := openOn(t, c, redis.Options{Metrics: registry})
	lore{messages: 1}.make(t, s, c.Direct, "disagree")
	owner, other := c.Sides(t, c.SlotOf("disagree"))
	m := c.OpenMove(t, "disagree")
	for m.MoveKeys(t, 10) > 0 {
		continue
	}
	id, err := other.Do(t, "CLUSTER", "MYID").ToString()
	require.NoError(t, err)
	slot := fmt.Sprint(c.SlotOf("disagree"))
	require.NoError(t, owner.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", id).Error())
	require.NoError(t, other.Do(t, "CLUSTER", "SETSLOT", slot, "STABLE").Error())
	require.ErrorContains(t, other.Do(t, "GET", s.keys("disagree").Clock()).Error(), "MOVED")
	require.ErrorContains(t, owner.Do(t, "GET", s.keys("disagree").Clock()).Error(), "MOVED")

	for _, n := range c.Nodes() {
		require.NoError(t, n.Do(t, "CONFIG", "RESETSTAT").Error())
	}
	storetest.RequireUnavailable(t, storagetest.ErrorOf(s.Publish(storetest.Shortly(t), publishOf("disagree", "m2"))))
	tries := 1 + storetest.Counted(t, registry, "tidemark_redis_retries_total")
	refused := 0.0
	for _, n := range c.Nodes() {
		refused += rejected(t, n, "evalsha")
	}
	require.LessOrEqual(t, refused, 5*tries, "a call follows four redirections at most")
	require.NoError(t, other.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", id).Error())
	require.NoError(t, publishSecond(t.Context(), s, "disagree", 2))
}

// rejected returns the number of calls of a command that a node has refused.
func rejected(t *testing.T, n *redistest.Node, command string) float64 {
	t.Helper()
	text, err := n.Do(t, "INFO", "commandstats").ToString()
	require.NoError(t, err)
	_, rest, found := strings.Cut(text, "cmdstat_"+command+":")
	if !found {
		return 0
	}
	line, _, _ := strings.Cut(rest, "\n")
	_, count, _ := strings.Cut(line, "rejected_calls=")
	digits, _, _ := strings.Cut(count, ",")
	calls, err := strconv.ParseFloat(digits, 64)
	require.NoError(t, err)
	return calls
}
