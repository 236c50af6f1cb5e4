package channels

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/tracing/tracingtest"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/proxy"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// call is a publish that has begun.
type call struct {
	done      chan struct{} // closed at its end
	published []channel.Published
	err       error
}

// wait waits for the publish's end.
func (p *call) wait(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(storagetest.Patience):
		require.FailNow(t, "the publish never ends")
	}
}

// outcome returns the first message's clock and whether it is a duplicate, or the error.
func (p *call) outcome(t *testing.T) string {
	t.Helper()
	p.wait(t)
	if p.err != nil {
		return p.err.Error()
	}
	return fmt.Sprintf("%v %v", p.published[0].Clock, p.published[0].Duplicate)
}

// begin begins a publish, and returns once it is one of n that wait for the call of another one.
func begin(ctx context.Context, t *testing.T, s *Store, r channel.PublishRequest, n int) *call {
	t.Helper()
	p := &call{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.published, p.err = s.Publish(ctx, r)
	}()
	storetest.WaitFor(t, "the publish to wait", func() bool { return s.groupCommit.Waiting() == n })
	return p
}

// oneAtATime lets a store have one such call for a channel in progress.
func oneAtATime(s *Store) {
	s.groupCommit.Close()
	s.groupCommit = s.newGroupCommit(1)
}

// beginGroup begins a publish of its own, holds its call, and begins the others, which will share the next one.
func (c cutStore) beginGroup(ctx context.Context, t *testing.T, requests ...channel.PublishRequest) []*call {
	t.Helper()
	oneAtATime(c.Store)
	c.proxy.Hold(proxy.ToServer)
	sent := c.proxy.Count()
	all := []*call{begin(ctx, t, c.Store, publishOf(requests[0].Channel, "first"), 0)}
	c.proxy.AwaitSent(t, sent, func(commands [][]string) bool { return len(commands) == 1 })
	for i, r := range requests {
		all = append(all, begin(t.Context(), t, c.Store, r, i+1))
	}
	return all
}

// outcomes returns the outcomes of publishes, in order.
func outcomes(t *testing.T, all []*call) (texts []string) {
	t.Helper()
	for _, p := range all {
		texts = append(texts, p.outcome(t))
	}
	return texts
}

// Publishes that arrive during a channel's call share the next ones, 256 messages at a time, and each has its own
// outcome and notification.
func TestPublishesShareCalls(t *testing.T) {
	t.Parallel()
	c := openCut(t, redistest.Standalone(t))
	require.NoError(t, storagetest.ErrorOf(c.Publish(t.Context(), publishOf("x", "known"))))
	events := make(chan channel.Event, 2*groupMessages)
	defer c.direct.Listen("x", func(e channel.Event) { events <- e })()
	require.Equal(t, channel.EventConfirmed, (<-events).Kind)

	requests := []channel.PublishRequest{publishOf("x", "known"), publishOf("x", "twice"), publishOf("x", "twice")}
	want := []string{"2 false", "1 true", "3 false", "3 true"}
	for i := len(requests); i < groupMessages+1; i++ {
		requests, want = append(requests, publishOf("x", strconv.Itoa(i))), append(want, fmt.Sprintf("%d false", i+1))
	}
	all, sent := c.beginGroup(t.Context(), t, requests...), c.proxy.Count()-1
	c.proxy.Pass()
	require.Equal(t, want, outcomes(t, all))
	require.Len(t, c.proxy.Sent(sent), 3, "the first, 256 together, and the one left")
	for at := clock.Clock(2); at <= groupMessages; at++ {
		e := <-events
		require.Equal(t, at, e.Clock)
		require.NotNil(t, e.Message)
		require.JSONEq(t, `{"of":"`+e.Message.ID+`"}`, string(e.Message.Content))
	}
}

// The span of a shared call is a child of the first publish that is traced, and linked to the others.
func TestASharedCallIsLinkedToItsPublishes(t *testing.T) {
	t.Parallel()
	collector := tracingtest.Start(t)
	tracer := collector.Tracer(t)
	c := openCut(t, redistest.Standalone(t))
	var requests []channel.PublishRequest
	var spans []tracingtest.ID
	for _, id := range []string{"untraced", "a", "b", "c"} {
		r := publishOf("x", id)
		if id != "untraced" {
			ctx, span := tracer.Serve(t.Context(), nil, id)
			defer span.End()
			r.Drafts[0].Trace = tracing.Of(ctx)
			spans = append(spans, tracingtest.ID{Trace: r.Drafts[0].Trace[3:35], Span: r.Drafts[0].Trace[36:52]})
		}
		requests = append(requests, r)
	}
	ctx, span := tracer.Serve(t.Context(), nil, "first") // another request begins the goroutine of the call
	all := c.beginGroup(ctx, t, requests...)
	span.End()
	c.proxy.Pass()
	outcomes(t, all)
	tracer.Close(t.Context())
	shared := collector.Named(t, "redis publish together", "")
	require.Equal(t, spans[0], tracingtest.ID{Trace: shared.Trace, Span: shared.Parent})
	require.Equal(t, spans[1:], shared.Links)
	require.Equal(t, "4", shared.Attributes["db.operation.batch.size"])
	require.Len(t, collector.Spans(), 3, "of the first request, of its call, and of the shared one")
}

// A call has at most 256 KiB of messages, and publishes to other channels don't wait for it.
func TestLargeMessagesDelayNoOtherChannel(t *testing.T) {
	t.Parallel()
	c := openCut(t, redistest.Standalone(t))
	large := func(id string) channel.PublishRequest {
		r := publishOf("x", id)
		r.Drafts[0].Content = []byte(`"` + strings.Repeat("x", groupBytes*2/3) + `"`)
		return r
	}
	all, sent := c.beginGroup(t.Context(), t, large("a"), large("b"), large("c")), c.proxy.Count()-1
	other := begin(t.Context(), t, c.Store, publishOf("y", "m"), 3)
	c.proxy.Pass()
	require.Equal(t, []string{"1 false", "2 false", "3 false", "4 false"}, outcomes(t, all))
	require.Equal(t, "1 false", other.outcome(t))
	require.Len(t, c.proxy.Sent(sent), 5)
}

// Only publishes on the same terms share a call: those that may not make the channel are refused, the others are not.
func TestTermsOfSharedCalls(t *testing.T) {
	t.Parallel()
	c := openCut(t, redistest.Standalone(t))
	oneAtATime(c.Store)
	c.proxy.Hold(proxy.ToServer)
	existing, making := publishOf("x", "a"), publishOf("x", "b")
	existing.Existing = true
	all := []*call{begin(t.Context(), t, c.Store, existing, 0), begin(t.Context(), t, c.Store, existing, 1)}
	for n := 1; n <= 2; n++ {
		all = append(all, begin(t.Context(), t, c.Store, making, n))
	}
	c.proxy.Pass()
	outcomes(t, all)
	// Redis gets the calls of both terms in any order: the first ones, and then those that waited for them.
	require.NoError(t, all[2].err)
	require.NoError(t, all[3].err)
	for _, refused := range all[:2] {
		if refused.err != nil {
			require.ErrorIs(t, refused.err, channel.ErrNoChannel)
		}
	}
}

// Only the first message of a shared call that makes the channel begins it.
func TestSharedCallMakesTheChannel(t *testing.T) {
	t.Parallel()
	s, _ := openStandalone(t)
	replies, _, err := s.commitGroup(t.Context(), terms{channel: "x", ttl: time.Hour},
		messagesOf(&channel.PublishRequest{Drafts: drafted("a", "b")}))
	require.NoError(t, err)
	for i, id := range []string{"a", "b"} {
		published, err := decodePublished(replies[i], drafted(id), nil)
		require.NoError(t, err)
		want := channel.Published{ID: id, Clock: clock.Clock(i + 1), Begun: i == 0, Epoch: published[0].Epoch}
		require.Equal(t, []channel.Published{want}, published)
	}
}

// A publisher that leaves before its call publishes nothing, and the others don't notice.
func TestPublisherLeavesBeforeItsCall(t *testing.T) {
	t.Parallel()
	c := openCut(t, redistest.Standalone(t))
	all := c.beginGroup(t.Context(), t, publishOf("x", "a"))
	ctx, cancel := context.WithCancel(t.Context())
	canceled := begin(ctx, t, c.Store, publishOf("x", "b"), 2)
	all = append(all, begin(t.Context(), t, c.Store, publishOf("x", "c"), 3))
	cancel()
	canceled.wait(t)
	require.ErrorIs(t, canceled.err, context.Canceled)
	c.proxy.Pass()
	require.Equal(t, []string{"1 false", "2 false", "3 false"}, outcomes(t, all))
}

// While a slot is half moved Redis refuses a call with a new message. Duplicates in the same call are answered, and the
// new message is published when the slot has moved.
func sharedCallInHalfMovedSlot(t *testing.T, c storetest.TwoNodes) {
	t.Helper()
	s := openOn(t, c, redis.Options{Timeout: 2 * storagetest.Patience})
	oneAtATime(s)
	lore{messages: 1}.make(t, s, c.Direct, "shared")
	owner, _ := c.Sides(t, c.SlotOf("shared"))
	m := c.OpenMove(t, "shared")
	require.NoError(t, owner.Do(t, "CLIENT", "PAUSE", "60000", "WRITE").Error())
	first := begin(t.Context(), t, s, publishOf("shared", "m1"), 0)
	second := begin(t.Context(), t, s, publishOf("shared", "m1"), 1)
	fresh := begin(t.Context(), t, s, publishOf("shared", "new"), 2)
	require.NoError(t, owner.Do(t, "CLIENT", "UNPAUSE").Error())
	require.Equal(t, []string{"1 true", "1 true"}, outcomes(t, []*call{first, second}))
	for m.MoveKeys(t, 10) > 0 {
		continue
	}
	m.CloseSlot(t)
	require.Equal(t, "2 false", fresh.outcome(t))
}

// The answer of a shared call is lost. Each of its publishes finds its own message, which is no duplicate.
func TestAnswerOfASharedCallIsLost(t *testing.T) {
	t.Parallel()
	c := openCut(t, redistest.Standalone(t))
	require.NoError(t, storagetest.ErrorOf(c.direct.Publish(t.Context(), publishOf("x", "known"))))
	all := c.beginGroup(t.Context(), t, publishOf("x", "a"), publishOf("x", "known"), publishOf("x", "b"))
	var lost atomic.Bool
	c.proxy.Fail(func(command []string) string {
		if strings.Contains(strings.Join(command, " "), ".mid.a") && lost.CompareAndSwap(false, true) {
			c.proxy.Cut()
		}
		return ""
	})
	c.proxy.Pass()
	require.Equal(t, []string{"2 false", "3 false", "1 true", "4 false"}, outcomes(t, all))
	require.True(t, lost.Load())
}

// A publish that begins after Close goes alone.
func TestPublishAfterClose(t *testing.T) {
	t.Parallel()
	s, _ := openStandalone(t)
	s.Close()
	require.NoError(t, storagetest.ErrorOf(s.Publish(t.Context(), publishOf("x", "m1"))))
}

// If nobody on the node of a channel receives the first notification of a shared call, one for all others follows, so
// that a subscriber on a replica fetches them.
func TestASharedCallNotifiesReplicas(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, n)
	c := openCut(t, n)
	topic, notices := c.keys("x").Topic(), make(chan string, 10)
	subscribed, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		subscribe := replica.Client().B().Ssubscribe().Channel(topic).Build()
		_ = replica.Client().Receive(subscribed, subscribe, func(m rueidis.PubSubMessage) { notices <- m.Message })
	}()
	storetest.WaitFor(t, "the subscription", func() bool {
		counts, err := replica.Do(t, "PUBSUB", "SHARDNUMSUB", topic).ToArray()
		require.NoError(t, err)
		count, err := counts[1].AsInt64()
		require.NoError(t, err)
		return count == 1
	})
	all := c.beginGroup(t.Context(), t, publishOf("x", "a"), publishOf("x", "b"), publishOf("x", "c"))
	c.proxy.Pass()
	require.Equal(t, []string{"1 false", "2 false", "3 false", "4 false"}, outcomes(t, all))
	require.Contains(t, <-notices, `"id":"first"`)
	require.Contains(t, <-notices, `"id":"a"`)
	require.Regexp(t, `^[0-9A-Z]{26} 4$`, <-notices)
}

// beginPublish begins a publish without a goroutine. What its content was in is used for something else at once.
func beginPublish(ctx context.Context, t *testing.T, s *Store, r channel.PublishRequest) *call {
	t.Helper()
	p := &call{done: make(chan struct{})}
	require.True(t, s.BeginPublish(ctx, r, func(published []channel.Published, err error) {
		p.published, p.err = published, err
		close(p.done)
	}))
	for i := range r.Drafts[0].Content {
		r.Drafts[0].Content[i] = 'x'
	}
	return p
}

// Publishes that are begun share calls, and each has its own outcome. If the answer of their call is lost, each finds its
// own message, with its content and its type.
func TestBegunPublishes(t *testing.T) {
	t.Parallel()
	c := openCut(t, redistest.Standalone(t))
	require.NoError(t, storagetest.ErrorOf(c.direct.Publish(t.Context(), publishOf("x", "known"))))
	c.proxy.Hold(proxy.ToServer)
	sent := c.proxy.Count()
	all := []*call{beginPublish(t.Context(), t, c.Store, publishOf("x", "first"))}
	c.proxy.AwaitSent(t, sent, func(commands [][]string) bool { return len(commands) == 1 })
	all = append(all, beginPublish(t.Context(), t, c.Store, publishOf("x", "second"))) // the channel's other call
	c.proxy.AwaitSent(t, sent, func(commands [][]string) bool { return len(commands) == 2 })
	ctx, cancel := context.WithCancel(t.Context())
	for _, id := range []string{"a", "known", "b"} {
		r := publishOf("x", id)
		r.Drafts[0].ContentType = map[string]string{"b": "text/plain"}[id]
		all = append(all, beginPublish(ctx, t, c.Store, r))
	}
	require.Equal(t, 3, c.groupCommit.Waiting())
	var lost atomic.Bool
	c.proxy.Fail(func(command []string) string {
		if strings.Contains(strings.Join(command, " "), ".mid.a") && lost.CompareAndSwap(false, true) {
			c.proxy.Cut()
		}
		return ""
	})
	c.proxy.Pass()
	require.Equal(t, []string{"2 false", "3 false", "4 false", "1 true", "5 false"}, outcomes(t, all))
	require.True(t, lost.Load())
	cancel()
	values, err := c.readEach(t.Context(), []string{c.keys("x").Message(4), c.keys("x").Message(5)})
	require.NoError(t, err)
	for i, id := range []string{"a", "b"} {
		m, err := parseEnvelope(values[i], 4)
		require.NoError(t, err)
		require.JSONEq(t, `{"of":"`+id+`"}`, string(m.Content))
		require.Equal(t, []string{"", "text/plain"}[i], m.ContentType)
	}
	batch := publishOf("x", "c")
	batch.Drafts = drafted("c", "d")
	require.False(t, c.BeginPublish(t.Context(), batch, nil), "it shares no call")
	c.Close()
	require.False(t, c.BeginPublish(t.Context(), publishOf("x", "e"), nil))
}
