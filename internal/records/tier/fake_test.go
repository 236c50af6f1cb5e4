package tier_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pass advances the clock of a bubble.
func pass(d time.Duration) { <-time.After(d) }

// redis is an in-memory store of values and announcements. A zero end means that a value is permanent.
type redis struct {
	mu     sync.Mutex
	values map[string]string
	ends   map[string]time.Time
	log    []channel.Message
	read   int // messages that the last fetch returned
	acked  int
	wake   chan struct{} // closed when a message comes
	deaf   bool          // no wait notices new messages
	life   string
	fail   error // of the next fetch or read
	away   error // of all fetches and reads
	gap    uint64
	rand   *rand.Rand // nil: nothing takes time
	walks  int
}

func newRedis() *redis {
	return &redis{values: map[string]string{}, ends: map[string]time.Time{}, wake: make(chan struct{}), life: "1"}
}

// delay waits for a random time.
func (r *redis) delay(limit time.Duration) {
	if r.rand == nil {
		return
	}
	r.mu.Lock()
	d := time.Duration(r.rand.Int64N(int64(limit)))
	r.mu.Unlock()
	pass(d)
}

func (r *redis) set(id, value string, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values[id] = value; value == "" {
		delete(r.values, id)
	}
	if delete(r.ends, id); ttl > 0 {
		r.ends[id] = time.Now().Add(ttl)
	}
}

func (r *redis) get(id string) (value string, ttl time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, ok = r.values[id]
	if end, ends := r.ends[id]; ends {
		ttl = time.Until(end)
		ok = ok && ttl > 0
	}
	return value, ttl, ok
}

// publish publishes the content of a message.
func (r *redis) publish(content string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, channel.Message{Content: []byte(content), PublishedAt: time.Now()})
	if !r.deaf {
		close(r.wake)
		r.wake = make(chan struct{})
	}
}

func (r *redis) announce(t *testing.T, changes ...tier.Change) {
	t.Helper()
	content, err := tier.EncodeChanges(changes)
	require.NoError(t, err)
	r.publish(string(content))
}

// lose makes fetches report messages that expired.
func (r *redis) lose(messages uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gap = messages
}

// reach makes all fetches and reads fail, unless err is nil.
func (r *redis) reach(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = err
}

// failure returns the error of the next call, once.
func (r *redis) failure() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err, r.fail = r.fail, nil
	return cmp.Or(err, r.away)
}

// Life implements tier.Values.
func (r *redis) Life(context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.life, nil
}

// Read implements tier.Values: the result may be outdated on return.
func (r *redis) Read(_ context.Context, _ *records.Kind, ids []string) ([]tier.Value, error) {
	values := make([]tier.Value, len(ids))
	for i, id := range ids {
		value, ttl, ok := r.get(id)
		values[i] = tier.Value{Found: ok, Bytes: []byte(value), Left: ttl}
	}
	r.delay(time.Second)
	return values, r.failure()
}

type walk struct {
	r   *redis
	ids []string
}

// Walk implements tier.Values.
func (r *redis) Walk(*records.Kind) tier.Walk {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.walks++
	w := &walk{r: r}
	for id := range r.values {
		w.ids = append(w.ids, id)
	}
	return w
}

// Next implements tier.Walk.
func (w *walk) Next(context.Context) (ids []string, looked int, err error) {
	if len(w.ids) == 0 {
		return nil, 0, io.EOF
	}
	w.r.delay(time.Second)
	ids, w.ids = w.ids[:1], w.ids[1:]
	return slices.Clone(ids), 1, nil
}

// Subscribe implements tier.Channels.
func (r *redis) Subscribe(_ context.Context, q channel.SubscribeRequest) (s channel.Subscription, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read, r.acked = len(r.log), len(r.log); q.From.Start == channel.StartEarliest {
		r.read, r.acked = 0, 0
	}
	return s, nil
}

// Unsubscribe implements tier.Channels.
func (r *redis) Unsubscribe(context.Context, string, string, ulid.ULID) error { return nil }

// Next implements tier.Channels.
func (r *redis) Next(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error) {
	if err := r.failure(); err != nil {
		return channel.Delivery{}, err
	}
	r.delay(100 * time.Millisecond)
	for limit := time.After(q.Wait); ; {
		r.mu.Lock()
		if handle != "" {
			r.acked = r.read
		}
		d := channel.Delivery{Messages: r.log[r.acked:min(len(r.log), r.acked+q.Max)], Expired: r.gap,
			More: r.acked+q.Max < len(r.log)}
		if r.read = r.acked + len(d.Messages); len(d.Messages) > 0 {
			d.Receipt = fmt.Sprint(r.read)
		}
		wake := r.wake
		r.mu.Unlock()
		if d.Receipt != "" || d.Expired > 0 || q.Wait == 0 {
			return d, nil
		}
		select {
		case <-wake:
		case <-limit:
			return d, nil
		case <-ctx.Done():
			return d, nil
		}
	}
}

// node is a running source.
type node struct {
	*tier.Source

	in    shard.Interval
	mu    sync.Mutex
	read  shard.Reader[string, string, []byte] // nil: it hasn't loaded
	ended error
	stop  func()
}

// startNode runs a source once until the test ends, in a bubble.
func startNode(t *testing.T, s *tier.Source, in shard.Interval) *node {
	t.Helper()
	n := &node{Source: s, in: in}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := s.Run(ctx, in, func(r shard.Reader[string, string, []byte]) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.read = r
		})
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ended = err
	}()
	n.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(n.stop)
	return n
}

// err returns the error with which the run has ended.
func (n *node) err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// get returns the values that the node has for IDs.
func (n *node) get(t *testing.T, ids ...string) map[string]string {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	require.NotNil(t, n.read, "it has loaded")
	entries, err := n.read(t.Context(), ids)
	require.NoError(t, err)
	found := map[string]string{}
	for _, e := range entries {
		found[e.ID] = string(e.Value)
	}
	return found
}

func sourceOf(r *redis, o tier.SourceOptions) *tier.Source {
	o.Kind, o.Values, o.Channels, o.Life = site.Kind("author"), r, r, r.Life
	return tier.NewSource(o)
}

// run runs a test in a bubble, with a node of the whole cache.
func run(t *testing.T, r *redis, o tier.SourceOptions, test func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r.wake = make(chan struct{})
		n := startNode(t, sourceOf(r, o), shard.All)
		test(t, n)
		n.stop()
	})
}
