package channels

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// heavy is the size of messages in large fetches.
const heavy = 10_000

// fill publishes n heavy messages to a channel that has the subscriber reader, and returns a request for all of them.
func fill(t *testing.T, s *Store, name string, n int) channel.FetchRequest {
	t.Helper()
	return fillWith(t, s, name, n, heavy)
}

// fillWith is fill with messages of a size.
func fillWith(t *testing.T, s *Store, name string, n, size int) channel.FetchRequest {
	t.Helper()
	policy := channel.Policy{TTL: time.Hour, MaxMessageBytes: size}
	_, err := s.Subscribe(t.Context(), channel.SubscribeRequest{Channel: name, Subscriber: reader, Policy: policy})
	require.NoError(t, err)
	r := channel.PublishRequest{Channel: name, Policy: policy}
	for i := range n {
		content := `"` + strings.Repeat("x", size-2) + `"`
		r.Drafts = append(r.Drafts, channel.Draft{ID: "m" + strconv.Itoa(i+1), Content: []byte(content)})
	}
	_, err = s.Publish(t.Context(), r)
	require.NoError(t, err)
	return channel.FetchRequest{Channel: name, Subscriber: reader, Max: 1000, MaxBytes: 4 << 20, Policy: policy}
}

// requireRun expects a batch to hold the messages from first to last.
func requireRun(t *testing.T, b channel.Batch, first, last clock.Clock) {
	t.Helper()
	require.Len(t, b.Messages, int(last-first)+1)
	for i, m := range b.Messages {
		require.Equal(t, first+clock.Clock(i), m.Clock)
		require.Equal(t, "m"+m.Clock.String(), m.ID)
		require.Len(t, m.Content, heavy)
	}
	require.Equal(t, last, b.Through)
}

// A fetch of more than the script reads has all messages in order, up to its limits.
func TestLargeFetch(t *testing.T) {
	t.Parallel()
	s, n := openStandalone(t)
	all := fill(t, s, "x", 300)
	require.Greater(t, 300*heavy, firstRead+2*bulkRead, "several reads are needed")
	fetch := func(r channel.FetchRequest) channel.Batch {
		b, err := s.Fetch(t.Context(), r)
		require.NoError(t, err)
		return b
	}
	requireRun(t, fetch(all), 1, 300)
	few := all
	few.Max = 123
	requireRun(t, fetch(few), 1, 123)
	small := all
	small.MaxBytes = 1 << 20
	b := fetch(small)
	requireRun(t, b, 1, b.Through)
	require.InDelta(t, small.MaxBytes/heavy, len(b.Messages), 2)

	next, err := s.Next(t.Context(), channel.AckRequest{Receipt: receiptOf("x", b), Policy: all.Policy}, all)
	require.NoError(t, err)
	requireRun(t, next, b.Through+1, 300)
	for at := clock.Clock(200); at < 210; at++ {
		require.NoError(t, n.Do(t, "DEL", s.keys("x").Message(at)).Error())
	}
	for _, at := range []clock.Clock{b.Through + 2, 250, 300} {
		require.NoError(t, n.Do(t, "SETRANGE", s.keys("x").Message(at), "100", "\x01").Error())
	}
	b = fetch(all)
	require.EqualValues(t, 10, b.Expired)
	require.EqualValues(t, 3, b.Damaged)
	require.EqualValues(t, 300, b.Through)
	require.Len(t, b.Messages, len(next.Messages)-13)
}

// A large fetch stops if a fail-over has given the clock of its last message to another one: its receipt would
// acknowledge messages that weren't read.
func TestLargeFetchAcrossAFailOver(t *testing.T) {
	t.Parallel()
	s, n := openStandalone(t)
	all := fill(t, s, "x", 100)
	keys := s.keys("x")
	call := s.fetchCall(&all, 1, firstRead)
	rep, err := s.conn.Run(t.Context(), fetchScript, call.Keys, call.Args)
	require.NoError(t, err)
	b, err := s.batch(t.Context(), rep, keys)
	require.NoError(t, err)
	end := b.Through
	require.Less(t, end, clock.Clock(100))
	text, err := n.Do(t, "GET", keys.Message(end)).ToString()
	require.NoError(t, err)
	other := strings.Replace(text, `"id":"m`, `"id":"n`, 1)
	require.NoError(t, n.Do(t, "SET", keys.Message(end), other, "KEEPTTL").Error())
	requireRun(t, s.rest(t.Context(), &all, b), 1, end)
}

// A large fetch that doesn't get its share in time returns the messages that the script has read.
func TestLargeFetchWithoutBudget(t *testing.T) {
	t.Parallel()
	shared, n := openStandalone(t)
	all := fill(t, shared, "x", 100)
	s := open(t, redis.Options{URL: n.URL(), KeyPrefix: shared.conn.Prefix(), Timeout: time.Second})
	_, release, err := s.conn.LargeRead(t.Context(), "another", redis.DefaultLargeReadBytes)
	require.NoError(t, err)
	b, err := s.Fetch(t.Context(), all)
	require.NoError(t, err)
	require.NotEmpty(t, b.Messages)
	requireRun(t, b, 1, b.Through)
	require.Less(t, b.Through, b.Clock, "there is more")
	release()
	b, err = s.Fetch(t.Context(), all)
	require.NoError(t, err)
	requireRun(t, b, 1, 100)
}

// A large fetch takes no memory of answers while it waits for its share of the budget, and what it has read afterwards.
// One that gets no memory returns the messages that the script has read.
func TestLargeFetchAndUnreadAnswers(t *testing.T) {
	t.Parallel()
	shared, n := openStandalone(t)
	const size = firstRead + 1000
	all, larger, other := fill(t, shared, "x", 100), fillWith(t, shared, "y", 3, size), fillWith(t, shared, "z", 3, size)
	s := open(t, redis.Options{URL: n.URL(), KeyPrefix: shared.conn.Prefix(), Timeout: time.Second})
	answers := unsent.New(4 * 16 << 20)
	ann := func() string { return "ann" }
	answer, more := answers.Part(ann), answers.Part(ann)
	ctx := unsent.With(t.Context(), &answer)
	fetchEach := func() (read int) {
		for _, r := range s.FetchEach(ctx, []channel.FetchRequest{larger, other}) {
			read += bytesOf(r.Messages)
		}
		return read
	}
	_, release, err := s.conn.LargeRead(t.Context(), "another", redis.DefaultLargeReadBytes)
	require.NoError(t, err)
	b, err := s.Fetch(ctx, all)
	require.NoError(t, err)
	script := b.Through
	require.Zero(t, answers.Bytes())
	require.Zero(t, fetchEach())
	require.Zero(t, answers.Bytes())
	release()
	b, err = s.Fetch(ctx, all)
	require.NoError(t, err)
	requireRun(t, b, 1, 100)
	require.EqualValues(t, bytesOf(b.Messages), answers.Bytes())
	require.Equal(t, 6*size, fetchEach())
	require.EqualValues(t, bytesOf(b.Messages)+6*size, answers.Bytes(), "of both, for one answer")

	answer.Shrink(0)
	require.NoError(t, more.Grow(8<<20))
	b, err = s.Fetch(ctx, all)
	require.NoError(t, err)
	requireRun(t, b, 1, script)
	for _, r := range s.FetchEach(ctx, []channel.FetchRequest{larger, other}) {
		var refused *fault.Error
		require.ErrorAs(t, r.Err, &refused)
		require.Equal(t, fault.Limited, refused.Kind)
	}
	require.EqualValues(t, 8<<20, answers.Bytes())
}

// A fetch of many reads messages that are too large for its scripts within the budget, as a fetch of one does: without
// its share it gets none of them, and those of other channels all the same.
func TestLargeFetchOfMany(t *testing.T) {
	t.Parallel()
	shared, n := openStandalone(t)
	const size = firstRead + 1000
	large, larger, mixed := fillWith(t, shared, "y", 3, size), fillWith(t, shared, "x", 20, size), fill(t, shared, "z", 1)
	large.MaxBytes, larger.MaxBytes = size, 5*size
	mixed.Policy.MaxMessageBytes = size
	_, err := shared.Publish(t.Context(), channel.PublishRequest{Channel: "z", Policy: mixed.Policy,
		Drafts: []channel.Draft{{ID: "m2", Content: []byte(`"` + strings.Repeat("x", size-2) + `"`)}}})
	require.NoError(t, err)
	requests := []channel.FetchRequest{large, larger, mixed}
	requireMessages := func(s *Store, want ...int) {
		t.Helper()
		for i, r := range s.FetchEach(t.Context(), requests) {
			if want[i] == 0 {
				require.ErrorIs(t, r.Err, fault.ErrUnavailable)
				continue
			}
			require.NoError(t, r.Err)
			require.Len(t, r.Messages, want[i])
			for n, m := range r.Messages {
				require.Equal(t, "m"+strconv.Itoa(n+1), m.ID)
				require.EqualValues(t, n+1, m.Clock)
			}
			require.EqualValues(t, want[i], r.Through)
			require.Zero(t, r.Expired)
		}
	}
	requireMessages(shared, 1, 4, 2) // an envelope is larger than its content
	s := open(t, redis.Options{URL: n.URL(), KeyPrefix: shared.conn.Prefix(), Timeout: time.Second})
	_, release, err := s.conn.LargeRead(t.Context(), "another", redis.DefaultLargeReadBytes)
	require.NoError(t, err)
	requireMessages(s, 0, 0, 1)
	release()
	requireMessages(s, 1, 4, 2)
	require.NoError(t, n.Do(t, "DEL", s.keys("y").Message(1)).Error())
	r := s.FetchEach(t.Context(), requests)[0]
	require.NoError(t, r.Err)
	require.EqualValues(t, 1, r.Expired)
	require.Equal(t, "m2", r.Messages[0].ID)
}

// The scripts of a fetch of many read little together, however many channels have a message that one script would read:
// all else needs a share of the budget, and counts as an answer while it is read.
func TestLargeFetchOfManyMediumMessages(t *testing.T) {
	t.Parallel()
	shared, n := openStandalone(t)
	const channels, size = 64, firstRead - 5000
	requests := make([]channel.FetchRequest, channels)
	for i := range requests {
		requests[i] = fillWith(t, shared, "x"+strconv.Itoa(i), 1, size)
		requests[i].MaxBytes = size
	}
	s := open(t, redis.Options{URL: n.URL(), KeyPrefix: shared.conn.Prefix(), Timeout: time.Second})
	answers := unsent.New(64 << 20)
	answer := answers.Part(func() string { return "ann" })
	ctx := unsent.With(t.Context(), &answer)
	_, release, err := s.conn.LargeRead(t.Context(), "another", redis.DefaultLargeReadBytes)
	require.NoError(t, err)
	for _, r := range s.FetchEach(ctx, requests) {
		require.ErrorIs(t, r.Err, fault.ErrUnavailable)
	}
	release()
	s = open(t, redis.Options{URL: n.URL(), KeyPrefix: shared.conn.Prefix()}) // that waits longer
	for _, r := range s.FetchEach(ctx, requests) {
		require.NoError(t, r.Err)
		require.Len(t, r.Messages, 1)
	}
	require.EqualValues(t, channels*size, answers.Bytes())
}

// A fetch of many whose messages a fail-over has lost since its scripts ran doesn't take them for expired: its receipt
// would acknowledge messages that get their clocks.
func TestLargeFetchOfManyAcrossAFailOver(t *testing.T) {
	t.Parallel()
	s, n := openStandalone(t)
	requests := []channel.FetchRequest{fillWith(t, s, "x", 3, firstRead+1)}
	answer := s.fetchAll(t.Context(), []redis.Call{s.fetchCall(&requests[0], 0, firstRead)})[0]
	require.NoError(t, answer.Err)
	results := make([]channel.BatchResult, 1)
	var err error
	results[0].Batch, err = s.batch(t.Context(), answer.Reply, s.keys("x"))
	require.NoError(t, err)
	require.Empty(t, results[0].Messages)
	keys := s.keys("x")
	require.NoError(t, n.Do(t, "DEL", keys.Message(1), keys.Message(2), keys.Message(3)).Error())
	require.NoError(t, n.Do(t, "SET", keys.Clock(), "0", "KEEPTTL").Error())
	s.restOfEach(t.Context(), requests, results)
	require.ErrorIs(t, results[0].Err, errLost)
}

// Redis's limit on the output buffers of subscribers doesn't apply to fetches of any size while there are listeners.
func TestLargeFetchBesideAListener(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := open(t, redis.Options{URL: n.URL()})
	all := fill(t, s, "x", 300)
	storetest.Set(t, n, "client-output-buffer-limit", "pubsub 64kb 64kb 1")
	l := listen(t, s, "x")
	for range 10 {
		b, err := s.Fetch(t.Context(), all)
		require.NoError(t, err)
		requireRun(t, b, 1, 300)
	}
	l.requirePublished(t, s, "x", "after")
	require.Empty(t, l.events, "nothing was interrupted")
}

// A large fetch reads little more than it returns, also if large messages follow small ones.
func TestLargeFetchOfMessagesThatGrow(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := open(t, redis.Options{URL: n.URL()})
	policy := channel.Policy{TTL: time.Hour, MaxMessageBytes: 256 << 10}
	_, err := s.Subscribe(t.Context(), channel.SubscribeRequest{Channel: "x", Subscriber: reader, Policy: policy})
	require.NoError(t, err)
	for i := range 200 {
		size := 500
		if i >= 150 {
			size = policy.MaxMessageBytes
		}
		draft := channel.Draft{ID: "m" + strconv.Itoa(i), Content: []byte(`"` + strings.Repeat("x", size-2) + `"`)}
		_, err := s.Publish(t.Context(), channel.PublishRequest{Channel: "x", Policy: policy,
			Drafts: []channel.Draft{draft}})
		require.NoError(t, err)
	}
	sent := func() int { return int(n.Number(t, "stats", "total_net_output_bytes")) }
	before := sent()
	const answered = 2 << 20
	b, err := s.Fetch(t.Context(), channel.FetchRequest{Channel: "x", Subscriber: reader, Max: 1000, MaxBytes: answered,
		Policy: policy})
	require.NoError(t, err)
	require.Greater(t, len(b.Messages), 150)
	require.Less(t, sent()-before, answered+4*policy.MaxMessageBytes)
}
