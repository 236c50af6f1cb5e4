package tracked

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis"
)

// DefaultMemory is the default value of Options.Memory.
const DefaultMemory = 32 << 20

// DefaultMaxAge is the default value of Options.MaxAge.
const DefaultMaxAge = 10 * time.Minute

// refreshEvery is how often the nodes of a Cluster are asked which slots they have. If a key doesn't exist, its slot
// moves, and it is created at its new node, no message reports it: the client detects it by reading from the new node.
const refreshEvery = 2 * time.Second

// Options configures a Client. Its zero value is usable.
type Options struct {
	// Memory is how many bytes of values are kept for each node of Redis; zero: DefaultMemory.
	Memory int
	// MaxAge is how long a value may be answered without reading it again; zero: DefaultMaxAge.
	MaxAge time.Duration
}

// Client reads keys of one Redis, and reports which of them changed.
type Client struct {
	conn     *redis.Conn
	client   rueidis.Client
	maxAge   time.Duration
	versions versions

	mu        sync.RWMutex // held while listeners are called
	listeners map[*Listener]bool
	closed    atomic.Bool
}

// Listener is notified of changes. Its functions are called from the goroutines that read from Redis: they must return
// soon, and neither read with the client nor stop a listener.
type Listener struct {
	// Changed is called after a key that was read has changed or ended. The key is without the connection's prefix.
	Changed func(key string)
	// Lost is called after a connection was lost, or a database was flushed: every key may have changed.
	Lost func()
}

// Open makes the connections of a client to the Redis of conn. Close closes them. Errors: those of Conn.Retry, and
// rueidis.ErrNoCache for a server without client-side caching.
func Open(ctx context.Context, conn *redis.Conn, o Options) (*Client, error) {
	if o.Memory <= 0 {
		o.Memory = DefaultMemory
	}
	if o.MaxAge <= 0 {
		o.MaxAge = DefaultMaxAge
	}
	c := &Client{conn: conn, maxAge: o.MaxAge, listeners: map[*Listener]bool{}}
	c.versions.init()
	err := conn.Retry(ctx, "open client-side caching", func(context.Context) (err error) {
		c.client, err = conn.Dial(func(r *rueidis.ClientOption) {
			r.ClientName = "tidemark-tracked"
			r.DisableCache, r.CacheSizeEachConn = false, o.Memory
			r.PipelineMultiplex = -1 // one connection to each node, for Settle
			// Redis tracks each key that is read. The default, OPTIN, would not track one that is read by ASK while its
			// slot is moving: ASKING takes the place of the command that OPTIN is for.
			r.ClientTrackingOptions = []string{"OPTOUT"}
			r.OnInvalidations = c.invalidated
			r.ClusterOption.ShardsRefreshInterval = refreshEvery
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Close closes the connections. Listeners are not called any more after it returned.
func (c *Client) Close() {
	c.closed.Store(true)
	c.client.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.listeners)
}

// Listen calls l until stop is called. After stop has returned l isn't called any more.
func (c *Client) Listen(l Listener) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners[&l] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, &l)
	}
}

// invalidated is called with the keys that changed; nil means all.
func (c *Client) invalidated(keys []rueidis.RedisMessage) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if keys == nil {
		c.versions.bumpAll() // before Lost: see Entry.Fresh
		for l := range c.listeners {
			if l.Lost != nil && !c.closed.Load() {
				l.Lost()
			}
		}
		return
	}
	prefix := c.conn.Prefix()
	for _, message := range keys {
		key, err := message.ToString()
		if err != nil || len(key) < len(prefix) {
			continue // no key of ours
		}
		key = key[len(prefix):]
		c.versions.bump(key) // before Changed: see Entry.Fresh
		for l := range c.listeners {
			if l.Changed != nil {
				l.Changed(key)
			}
		}
	}
}

// Entry is the value of a key when it was read.
type Entry struct {
	Found bool
	// Bytes is the value of a string. Others may read it, too: it must not be changed.
	Bytes []byte
	// Until is when the key ends, or must be read again. It is zero for an entry that a caller can't keep at all, such
	// as that of a missing key.
	Until time.Time

	client  *Client
	key     string
	version version
}

// Fresh reports whether the caller may still keep the entry, or what it was decoded to. Call it under the lock that the
// caller's Listener takes to drop what it keeps: see the package comment.
func (e *Entry) Fresh() bool {
	return e.client.versions.of(e.key) == e.version && time.Now().Before(e.Until)
}

// Get reads a string. Keys are without the connection's prefix. Errors: those of Conn.Retry.
func (c *Client) Get(ctx context.Context, key string) (Entry, error) {
	entries, err := c.read(ctx, "get", []string{key})
	return entries[0], err
}

// GetMany reads strings, in one round trip to each node. The entries are in the order of the keys. Errors: those of
// Conn.Retry.
func (c *Client) GetMany(ctx context.Context, keys []string) ([]Entry, error) {
	return c.read(ctx, "get many", keys)
}

// Settle returns once the client has received all changes of keys that were made before the call, so that it doesn't
// return earlier values. It is for a process that reads its own writes. Redis has sent the names of changed keys on the
// connection on which they are read before it answers there again. Errors: those of Conn.Retry.
func (c *Client) Settle(ctx context.Context, keys ...string) error {
	return c.conn.Retry(ctx, "settle", func(ctx context.Context) error {
		commands := make(rueidis.Commands, len(keys))
		for i, key := range keys {
			commands[i] = c.client.B().Exists().Key(c.conn.Prefix() + key).Build()
		}
		for _, result := range c.client.DoMulti(ctx, commands...) {
			if err := result.Error(); err != nil {
				return err
			}
		}
		return nil
	})
}

// HGetAll reads a hash from Redis, without keeping it: it is for callers that keep the decoded value. Its next change
// is reported as for the other reads; its end is one, but Redis may report that late. ends is when it ends; zero:
// never. A hash that doesn't exist has no fields. Errors: those of Conn.Retry.
func (c *Client) HGetAll(ctx context.Context, key string) (fields map[string]string, ends time.Time, err error) {
	key = c.conn.Prefix() + key
	err = c.conn.Retry(ctx, "hgetall", func(ctx context.Context) error {
		replies := c.client.DoMulti(ctx, c.client.B().Hgetall().Key(key).Build(),
			c.client.B().Pttl().Key(key).Build())
		if fields, err = replies[0].AsStrMap(); err != nil {
			return err
		}
		left, err := replies[1].AsInt64()
		if ends = (time.Time{}); left != noEnd {
			ends = time.Now().Add(time.Duration(left) * time.Millisecond)
		}
		return err
	})
	return fields, ends, err
}

// noEnd is the reply of PTTL for a key without a TTL.
const noEnd = -1

func (c *Client) get(key string) rueidis.Cacheable { return c.client.B().Get().Key(key).Cache() }

func (e *Entry) decode(r rueidis.RedisResult) (err error) {
	e.Bytes, err = r.AsBytes()
	e.Found = err == nil
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

// read reads all keys with one pipeline to each node. It returns an entry for each key, also with an error.
func (c *Client) read(ctx context.Context, name string, keys []string) ([]Entry, error) {
	entries := make([]Entry, len(keys))
	if len(keys) == 0 {
		return entries, nil
	}
	err := c.conn.Retry(ctx, name, func(ctx context.Context) error {
		commands := make([]rueidis.CacheableTTL, len(keys))
		for i, key := range keys {
			entries[i] = Entry{client: c, key: key, version: c.versions.of(key)} // before it is read
			commands[i] = rueidis.CT(c.get(c.conn.Prefix()+key), c.maxAge)
		}
		for i, result := range c.results(ctx, commands) {
			e := &entries[i]
			err := e.decode(result)
			if outOfMemory(err) {
				err = e.decode(c.client.Do(ctx, rueidis.Completed(c.get(c.conn.Prefix()+e.key))))
			}
			if err != nil {
				return ownError(ctx, err)
			}
			if e.Found && result.Error() == nil {
				e.Until = until(result)
			}
		}
		return nil
	})
	return entries, err
}

func (c *Client) results(ctx context.Context, commands []rueidis.CacheableTTL) []rueidis.RedisResult {
	if len(commands) == 1 {
		return []rueidis.RedisResult{c.client.DoCache(ctx, commands[0].Cmd, commands[0].TTL)}
	}
	return c.client.DoMultiCache(ctx, commands...)
}

// outOfMemory reports whether Redis is too full to queue the commands with which a key is read and tracked. It can
// still be read.
func outOfMemory(err error) bool {
	var refusal *rueidis.RedisError
	return errors.As(err, &refusal) && strings.HasPrefix(refusal.Error(), "OOM ")
}

// until returns how long an answer may be kept. One that was read while its slot was moving isn't kept by the client
// either.
func until(r rueidis.RedisResult) time.Time {
	if ms := r.CachePXAT(); ms > 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// errShared is the error of a caller that waited for the read of another one, which gave up.
var errShared = errors.New("the reader that others waited for gave up")

// ownError replaces the end of another caller's context by an error that may pass.
func ownError(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return fmt.Errorf("%w: %v", errShared, err) //nolint:errorlint // not the end of this caller's context
	}
	return err
}

// versions counts the changes of keys, in bounded memory: several keys share a counter. So a change of one makes entries
// of others stale that are being read at that moment, and these are read again.
type versions struct {
	seed   maphash.Seed
	losses atomic.Uint64
	counts [4096]atomic.Uint64
}

// version is the state of a key's counters.
type version struct{ losses, count uint64 }

func (v *versions) init() { v.seed = maphash.MakeSeed() }

func (v *versions) counter(key string) *atomic.Uint64 {
	return &v.counts[maphash.String(v.seed, key)%uint64(len(v.counts))]
}

func (v *versions) of(key string) version {
	return version{losses: v.losses.Load(), count: v.counter(key).Load()}
}

func (v *versions) bump(key string) { v.counter(key).Add(1) }

func (v *versions) bumpAll() { v.losses.Add(1) }
