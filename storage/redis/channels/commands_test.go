package channels

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/lua/luatest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// meter is a store on a private Redis whose commands can be counted on both sides.
type meter struct {
	*Store
	*storetest.Meter
	policy channel.Policy
}

func newMeter(t *testing.T, o redistest.Options) *meter {
	t.Helper()
	m := storetest.NewMeter(t, o)
	s, err := New(m.Conn, Options{})
	require.NoError(t, err)
	return &meter{Store: s, Meter: m, policy: channel.Policy{TTL: time.Hour, MaxMessageBytes: 1000}}
}

func (m *meter) drafts(first string, n int) channel.PublishRequest {
	r := channel.PublishRequest{Channel: "ch", Policy: m.policy}
	for i := range n {
		r.Drafts = append(r.Drafts, channel.Draft{ID: first + strconv.Itoa(i), Content: []byte(`{"a": 1}`)})
	}
	return r
}

func (m *meter) request(limit int) channel.FetchRequest {
	return channel.FetchRequest{Channel: "ch", Subscriber: reader, Max: limit, MaxBytes: 1 << 20, Policy: m.policy}
}

func (m *meter) subscribe(t *testing.T, name string) {
	t.Helper()
	_, err := m.Subscribe(t.Context(), channel.SubscribeRequest{Channel: "ch", Subscriber: name, Policy: m.policy})
	require.NoError(t, err)
}

var quoted = regexp.MustCompile(`'([A-Z]+)'`)

// positionArgs is how many arguments of fetch.lua a position has.
const positionArgs = 6

// mayRun returns the commands that a script can run, and EVALSHA.
func mayRun(script *lua.Script) []string {
	names := []string{"evalsha"}
	for _, m := range quoted.FindAllStringSubmatch(script.Source(), -1) {
		names = append(names, strings.ToLower(m[1]))
	}
	return names
}

// measured is an operation whose commands are counted.
type measured struct {
	name   string
	script string
	keys   int // more, or fewer, than the header names; more of them have an argument each, and fewer no position
	do     func(ctx context.Context) error
}

func TestEachOperationIsOneCommand(t *testing.T) {
	t.Parallel()
	m := newMeter(t, redistest.Options{})
	ctx := t.Context()
	m.subscribe(t, reader)
	_, err := m.Publish(ctx, m.drafts("a", 20))
	require.NoError(t, err)
	five, err := m.Fetch(ctx, m.request(5))
	require.NoError(t, err)
	ten, err := m.Fetch(ctx, m.request(10))
	require.NoError(t, err)
	fetch := func(limit int) func(context.Context) error {
		return func(ctx context.Context) error { return storagetest.ErrorOf(m.Fetch(ctx, m.request(limit))) }
	}
	publish := func(id string, n int) func(context.Context) error {
		return func(ctx context.Context) error { return storagetest.ErrorOf(m.Publish(ctx, m.drafts(id, n))) }
	}
	subscribe := func(name string, start channel.Start) func(context.Context) error {
		r := channel.SubscribeRequest{Channel: "ch", Subscriber: name, Policy: m.policy,
			From: channel.From{Start: start}}
		return func(ctx context.Context) error { return storagetest.ErrorOf(m.Subscribe(ctx, r)) }
	}
	ack := func(ctx context.Context) error {
		return m.Ack(ctx, channel.AckRequest{Receipt: receiptOf("ch", five), Policy: m.policy})
	}
	for _, op := range []measured{
		{"publish", "publish", 0, publish("b", 1)},
		{"publish a duplicate", "publish", 0, publish("b", 1)},
		{"publish a batch", "publish", 99, publish("c", 100)},
		{"publish to a new channel", "publish", 0, func(ctx context.Context) error {
			r := m.drafts("a", 1)
			r.Channel = "new"
			return storagetest.ErrorOf(m.Publish(ctx, r))
		}},
		{"fetch one", "fetch", -2, fetch(1)},
		{"fetch all", "fetch", -2, fetch(1000)},
		{"fetch after a position", "fetch", 0, func(ctx context.Context) error {
			r, after := m.request(1000), receiptOf("ch", five)
			r.After = &after
			return storagetest.ErrorOf(m.Fetch(ctx, r))
		}},
		{"ack", "ack", 0, ack},
		{"ack again", "ack", 0, ack},
		{"next", "next", 0, func(ctx context.Context) error {
			return storagetest.ErrorOf(m.Next(ctx, channel.AckRequest{Receipt: receiptOf("ch", ten), Policy: m.policy},
				m.request(1000)))
		}},
		{"subscribe from latest", "subscribe", 0, subscribe("latest", channel.StartLatest)},
		{"subscribe from earliest", "subscribe", 0, subscribe("earliest", channel.StartEarliest)},
		{"subscribe again", "subscribe", 0, subscribe("latest", channel.StartLatest)},
		{"describe", "describe", 0,
			func(ctx context.Context) error { return storagetest.ErrorOf(m.Describe(ctx, about("ch", m.policy))) }},
		{"seek", "seek", 0, func(ctx context.Context) error {
			return storagetest.ErrorOf(m.Seek(ctx, channel.SeekRequest{Channel: "ch", Subscriber: "latest", Policy: m.policy}))
		}},
		{"purge", "purge", 0, func(ctx context.Context) error {
			return storagetest.ErrorOf(m.Purge(ctx, channel.PurgeRequest{Channel: "ch", Policy: m.policy}))
		}},
		{"unsubscribe", "unsubscribe", 0,
			func(ctx context.Context) error { return m.Unsubscribe(ctx, "ch", "latest", ulid.ULID{}) }},
		{"delete", "delete", 0,
			func(ctx context.Context) error {
				return m.Delete(ctx, channel.DeleteRequest{Channel: "ch", Epoch: five.Epoch, Policy: m.policy})
			}},
	} {
		m.isOneCommand(t, op)
	}
}

// TestPollOfManyIsOneCommand: an idle poll of many channels sends one command, writes nothing, and runs no script. The
// lives of their marks are read once, in the same pipeline.
func TestPollOfManyIsOneCommand(t *testing.T) {
	t.Parallel()
	m := newMeter(t, redistest.Options{})
	requests := make([]channel.PollRequest, 64)
	for i := range requests {
		r := m.request(1)
		r.Channel = "ch" + strconv.Itoa(i)
		_, err := m.Subscribe(t.Context(), channel.SubscribeRequest{Channel: r.Channel, Subscriber: reader,
			Policy: m.policy})
		require.NoError(t, err)
		requests[i].FetchRequest = r
	}
	poll := func(wait time.Duration) (names []string) {
		for i := range requests {
			requests[i].Wait = wait
		}
		before := m.Tap.Count()
		for _, r := range m.Poll(t.Context(), requests) {
			require.NoError(t, r.Err)
			require.Equal(t, wait > 0, r.Due, "a new mark has the TTL, and not the wait too")
		}
		for _, call := range m.Tap.Sent(before) {
			names = append(names, call[0]+" "+strconv.Itoa(len(call)-1))
		}
		return names
	}
	first := slices.Concat([]string{"MGET 192"}, slices.Repeat([]string{"PTTL 1"}, 64))
	require.Equal(t, first, poll(0))
	m.Reset(t)
	for range 10 {
		require.Equal(t, []string{"MGET 192"}, poll(0))
	}
	require.Equal(t, map[string]int{"mget": 10}, m.Stats(t))
	require.Equal(t, first, poll(time.Minute), "the life must cover the wait")

	requests = requests[:1]
	require.Equal(t, []string{"MGET 3"}, poll(0), "the life is still known")
	stop := m.Listen("ch0", func(channel.Event) {})
	defer stop()
	other, err := New(m.Conn, Options{}) // as another server
	require.NoError(t, err)
	storetest.WaitFor(t, "the removal to be noticed", func() bool {
		require.NoError(t, other.Unsubscribe(t.Context(), "ch0", reader, ulid.ULID{}))
		_, err := other.Subscribe(t.Context(), channel.SubscribeRequest{Channel: "ch0", Subscriber: reader,
			Policy: m.policy})
		require.NoError(t, err)
		return len(poll(0)) > 1
	})
}

// TestIdleFetchIsOneCommand: a subscriber's fetches that find nothing, one after the other, run no script but the first.
func TestIdleFetchIsOneCommand(t *testing.T) {
	t.Parallel()
	m := newMeter(t, redistest.Options{})
	m.subscribe(t, reader)
	fetch := func(wait time.Duration) (b channel.Batch, commands []string) {
		t.Helper()
		r := m.request(1)
		r.Wait = wait
		before := m.Tap.Count()
		b, err := m.Fetch(t.Context(), r)
		require.NoError(t, err)
		for _, call := range m.Tap.Sent(before) {
			commands = append(commands, call[0])
		}
		return b, commands
	}
	script, look := []string{"EVALSHA"}, []string{"MGET"}
	empty, commands := fetch(0)
	require.Equal(t, script, commands)
	for _, expected := range [][]string{{"MGET", "PTTL"}, look, look} {
		b, commands := fetch(0)
		require.Equal(t, expected, commands)
		require.Equal(t, empty, b, "as that of the script")
	}
	_, commands = fetch(time.Minute)
	require.Equal(t, []string{"MGET", "PTTL", "EVALSHA"}, commands, "the life must cover the wait")
	_, commands = fetch(time.Minute)
	require.Equal(t, []string{"MGET", "PTTL"}, commands)
	_, commands = fetch(time.Minute)
	require.Equal(t, look, commands)

	_, err := m.Publish(t.Context(), m.drafts("a", 2))
	require.NoError(t, err)
	b, commands := fetch(0)
	require.Equal(t, []string{"MGET", "EVALSHA"}, commands)
	require.Len(t, b.Messages, 1)
	_, commands = fetch(0)
	require.Equal(t, script, commands, "the last one has found something")
	require.NoError(t, m.Unsubscribe(t.Context(), "ch", reader, ulid.ULID{}))
	_, err = m.Fetch(t.Context(), m.request(1))
	require.ErrorIs(t, err, channel.ErrNoSubscriber)
}

// isOneCommand counts the commands that an operation sends, and those that Redis runs for it.
func (m *meter) isOneCommand(t *testing.T, op measured) {
	t.Helper()
	m.Reset(t)
	before := m.Tap.Count()
	require.NoError(t, op.do(t.Context()), op.name)

	sent := m.Tap.Sent(before)
	require.Len(t, sent, 1, "what %s sends", op.name)
	call := sent[0]
	require.Equal(t, "EVALSHA", call[0], op.name)
	files := luatest.Scripts(t, "channels")
	file := files[slices.IndexFunc(files, func(f luatest.File) bool { return f.Stem() == op.script })]
	require.Equal(t, file.Script().SHA1(), call[1], op.name)
	keys, args := file.Count("KEYS")+op.keys, file.Count("ARGV")+max(op.keys, 0)
	if op.keys < 0 {
		args -= positionArgs
	}
	require.Equal(t, strconv.Itoa(keys), call[2], "the keys of %s", op.name)
	require.Len(t, call[3:], keys+args, "the keys and arguments of %s", op.name)

	stats := m.Stats(t)
	require.Equal(t, 1, stats["evalsha"], op.name)
	for command := range stats {
		require.Contains(t, mayRun(file.Script()), command, "%s runs it, but its script can't", op.name)
	}
}

// TestAssignmentsMakeTheirChannels with 11 commands each, in one round trip.
func TestAssignmentsMakeTheirChannels(t *testing.T) {
	t.Parallel()
	m := newMeter(t, redistest.Options{})
	publish := func(first int) {
		requests := make([]channel.PublishRequest, 10)
		for i := range requests {
			requests[i] = m.drafts("a", 1)
			requests[i].Channel, requests[i].Subscriber = "ch"+strconv.Itoa(first+i), reader
		}
		for _, r := range m.PublishEach(t.Context(), requests) {
			require.NoError(t, r.Err)
		}
	}
	publish(0) // Redis knows the script now
	m.Reset(t)
	before := m.Tap.Count()
	publish(10)
	require.Len(t, m.Tap.Sent(before), 10)
	require.Equal(t, 10*12, m.Inside(t), "%v", m.Stats(t))
	require.Equal(t, 10*5, m.Stats(t)["set"])
}

// TestGapsAreFoundQuickly reads from far behind the clock.
func TestGapsAreFoundQuickly(t *testing.T) {
	t.Parallel()
	m := newMeter(t, redistest.Options{})
	m.subscribe(t, reader)
	const million = 1_000_000
	for i, c := range []struct {
		name  string
		clock clock.Clock
		steps uint64
		live  int
		limit int
	}{
		{"a million, all expired", million, million, 0, 64},
		{"a million, all expired, across the wrap", clock.Min + 499_999, million, 0, 64},
		{"a million, ten alive", 2 * million, million, 10, 64},
		{"a million, ten alive, across the wrap", clock.Min + 499_999, million, 10, 64},
		{"a million, a hundred alive, only five asked for", 3 * million, million, 100, 5},
		{"a million, the wrap among those alive", clock.Min + 4, million, 10, 64},
		{"2^53-1, all expired", 1 << 40, uint64(clock.Max), 0, 64},
		{"2^53-1, one alive", 1 << 41, uint64(clock.Max), 1, 64},
	} {
		m.put(t, "clock", c.clock.Sub(uint64(c.live)))
		m.put(t, "r."+reader, c.clock.Sub(c.steps))
		if c.live > 0 {
			_, err := m.Publish(t.Context(), m.drafts("case"+strconv.Itoa(i)+".", c.live))
			require.NoError(t, err)
		}
		m.Reset(t)
		before := m.Tap.Count()
		b, err := m.Fetch(t.Context(), m.request(c.limit))
		require.NoError(t, err, c.name)
		sent := m.Tap.Sent(before)
		require.Equal(t, "EVALSHA", sent[len(sent)-1][0], "%s: one script, after a look", c.name)
		require.LessOrEqual(t, len(sent), 3, c.name)
		require.Equal(t, c.steps-uint64(c.live), b.Expired, c.name)
		require.Len(t, b.Messages, min(c.live, c.limit), c.name)
		require.Equal(t, c.clock.Sub(uint64(c.live-len(b.Messages))), b.Through, c.name)
		require.Less(t, m.Inside(t), 67, "%s: %v", c.name, m.Stats(t))

		require.NoError(t, m.Ack(t.Context(), channel.AckRequest{Receipt: receiptOf("ch", b), Policy: m.policy}),
			c.name)
		again, err := m.Fetch(t.Context(), m.request(1000))
		require.NoError(t, err)
		require.Equal(t, b.Through, again.Mark, "the receipt moves the mark over the gap")
		require.Zero(t, again.Expired)
	}
}

// put overwrites a number of the channel and preserves its TTL.
func (m *meter) put(t *testing.T, key string, c clock.Clock) {
	t.Helper()
	require.NoError(t, m.Node.Do(t, "SET", "c.{ch}."+key, c.String(), "KEEPTTL").Error())
}

// TestIdlePollWritesNothing counts the changes by polls on an idle channel, and the commands that replicas receive.
func TestIdlePollWritesNothing(t *testing.T) {
	t.Parallel()
	m := newMeter(t, redistest.Options{Args: []string{"--repl-ping-replica-period", "3600"}})
	redistest.StartReplica(t, m.Node)
	m.subscribe(t, reader)
	_, err := m.Publish(t.Context(), m.drafts("a", 3))
	require.NoError(t, err)
	read, err := m.Fetch(t.Context(), m.request(10))
	require.NoError(t, err)
	require.NoError(t, m.Ack(t.Context(), channel.AckRequest{Receipt: receiptOf("ch", read), Policy: m.policy}))
	waiting := m.request(10)
	waiting.Wait = time.Minute
	_, err = m.Fetch(t.Context(), waiting)
	require.NoError(t, err)

	before := m.written(t)
	require.Positive(t, before["rdb_changes_since_last_save"])
	for range 20 {
		for _, r := range []channel.FetchRequest{m.request(10), waiting} {
			b, err := m.Fetch(t.Context(), r)
			require.NoError(t, err)
			require.Empty(t, b.Messages)
		}
		_, err = m.Next(t.Context(), channel.AckRequest{Receipt: receiptOf("ch", read), Policy: m.policy},
			m.request(10))
		require.NoError(t, err)
		_, err = m.Publish(t.Context(), m.drafts("a", 3))
		require.NoError(t, err)
		_, err = m.Describe(t.Context(), about("ch", m.policy))
		require.NoError(t, err)
		_, err = m.Position(t.Context(), "ch")
		require.NoError(t, err)
	}
	require.Equal(t, before, m.written(t))

	_, err = m.Publish(t.Context(), m.drafts("b", 1))
	require.NoError(t, err)
	require.NotEqual(t, before, m.written(t), "a write is seen")
}

func (m *meter) written(t *testing.T) map[string]float64 {
	t.Helper()
	all, counts := m.Node.Numbers(t, "default"), map[string]float64{}
	for _, field := range []string{"rdb_changes_since_last_save", "master_repl_offset"} {
		require.Contains(t, all, field)
		counts[field] = all[field]
	}
	return counts
}

// crowd is a service on a meter's store, with fetches that wait.
type crowd struct {
	*meter
	service *channel.Service
	waiting errgroup.Group
	got     chan string // the channel of each fetch that was answered with a message
}

const backstop = 50 * time.Millisecond

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	m := newMeter(t, redistest.Options{})
	service := newService(t, m.Store, backstop)
	c := &crowd{meter: m, service: service, got: make(chan string, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	var running errgroup.Group
	running.Go(func() error { return service.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		require.NoError(t, running.Wait())
		require.NoError(t, c.waiting.Wait())
	})
	return c
}

// wait lets n subscribers of a channel wait.
func (c *crowd) wait(ctx context.Context, t *testing.T, name string, n int) {
	t.Helper()
	for i := range n {
		q := channel.Query{Channel: name, Subscriber: "s" + strconv.Itoa(i), Wait: time.Minute}
		_, err := c.service.Subscribe(ctx, channel.SubscribeRequest{Channel: name, Subscriber: q.Subscriber})
		require.NoError(t, err)
		c.waiting.Go(func() error {
			d, err := c.service.Fetch(ctx, q)
			if len(d.Messages) > 0 {
				c.got <- name
			}
			return err
		})
	}
}

// reads counts the clock reads of each channel.
func reads(commands [][]string) map[string]int {
	counts := map[string]int{}
	for _, c := range storetest.WithName(commands, "MGET") {
		counts[storetest.HashTag(c[1])]++
	}
	return counts
}

// fetched returns the marks for which there was a fetch.
func fetched(commands [][]string) map[string]bool {
	marks := map[string]bool{}
	for _, c := range storetest.WithName(commands, "EVALSHA") {
		if c[1] == fetchScript.SHA1() {
			marks[c[5]] = true
		}
	}
	return marks
}

// TestWaitingCostsNothingPerWaiter lets three channels wait with 1, 20 and 200 subscribers: the only command for them
// is one clock read of each channel per backstop, and a publish reaches all waiters without another fetch.
func TestWaitingCostsNothingPerWaiter(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	sizes := map[string]int{"one": 1, "some": 20, "many": 200}
	before := c.Tap.Count()
	for name, n := range sizes {
		c.wait(t.Context(), t, name, n)
	}
	each := func(commands [][]string, n int) bool {
		counts := reads(commands)
		return counts["one"] >= n && counts["some"] >= n && counts["many"] >= n
	}
	c.Tap.AwaitSent(t, before, func(commands [][]string) bool { return len(fetched(commands)) == 221 })
	settling := c.Tap.Count() // the waiters have fetched and are about to sleep
	c.Tap.AwaitSent(t, settling, func(commands [][]string) bool { return each(commands, 3) })
	require.Len(t, storetest.WithName(c.Tap.Sent(before), "SSUBSCRIBE"), 3, "one subscription per channel")

	quiet := c.Tap.Count()
	c.Tap.AwaitSent(t, quiet, func(commands [][]string) bool { return each(commands, 10) })
	sent := c.Tap.Sent(quiet)
	require.Len(t, storetest.WithName(sent, "MGET"), len(sent), "only clocks are read: %.300v", sent)
	counts := reads(sent)
	require.Less(t, counts["many"], 3*counts["one"], "per channel, not per waiter")
	waiters, channels := c.service.Waiting()
	require.Equal(t, []int{221, 3}, []int{waiters, channels})

	published := c.Tap.Count()
	_, err := c.service.Publish(t.Context(), channel.PublishRequest{
		Channel: "many", Drafts: []channel.Draft{{ID: "m", Content: []byte("1")}},
	})
	require.NoError(t, err)
	for range sizes["many"] {
		require.Equal(t, "many", <-c.got)
	}
	sent = storetest.WithName(c.Tap.Sent(published), "EVALSHA")
	require.Len(t, sent, 1, "the publish, and no fetch")
	require.Equal(t, publishScript.SHA1(), sent[0][1])
}
