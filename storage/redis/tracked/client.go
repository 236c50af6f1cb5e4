package tracked

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
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
	conn   *redis.Conn
	client rueidis.Client // that of conn if Redis doesn't track
	tracks bool
	maxAge time.Duration

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

// Open makes the connections of a client to the Redis of conn. Close closes them. If Redis refuses client-side caching,
// that is logged, and the client reads each key from Redis each time. Errors: those of Conn.Retry.
func Open(ctx context.Context, conn *redis.Conn, o Options) (*Client, error) {
	if o.Memory <= 0 {
		o.Memory = DefaultMemory
	}
	if o.MaxAge <= 0 {
		o.MaxAge = DefaultMaxAge
	}
	c := &Client{conn: conn, maxAge: o.MaxAge, listeners: map[*Listener]bool{}}
	client, err := dial(ctx, conn, func(r *rueidis.ClientOption) {
		r.CacheSizeEachConn = o.Memory
		r.PipelineMultiplex = -1 // one connection to each node, for Settle
		r.OnInvalidations = c.invalidated
		r.ClusterOption.ShardsRefreshInterval = refreshEvery
	})
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		conn.Logger().WarnContext(ctx, "client-side caching is off: Redis is asked for each read of a cached value, and for "+
			"each request with a session", "error", refused.Err)
		c.client = conn.Client()
	case err != nil:
		return nil, err
	default:
		c.client, c.tracks = client, true
	}
	return c, nil
}

// Tracks reports whether Redis reports changes, and values are kept. Otherwise each key is read from Redis each time,
// and listeners aren't called.
func (c *Client) Tracks() bool { return c.tracks }

// Close closes the connections. Listeners are not called any more after it returned.
func (c *Client) Close() {
	c.closed.Store(true)
	if c.tracks {
		c.client.Close()
	}
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
}

// GetMany reads strings, in one round trip to each node. Keys are without the connection's prefix. The result has an
// entry for each key, in their order. Errors: those of Conn.Retry.
func (c *Client) GetMany(ctx context.Context, keys []string) ([]Entry, error) {
	entries := make([]Entry, len(keys))
	if len(keys) == 0 {
		return entries, nil
	}
	err := c.conn.Retry(ctx, "get many", func(ctx context.Context) error {
		if !c.tracks {
			return c.readMany(ctx, keys, entries)
		}
		commands := make([]rueidis.CacheableTTL, len(keys))
		for i, key := range keys {
			commands[i] = rueidis.CT(c.get(key), c.maxAge)
		}
		for i, result := range c.results(ctx, commands) {
			err := entries[i].decode(result)
			// Redis is too full to queue the commands with which a key is read and tracked. It can still be read.
			if refusal.Is(err, refusal.OutOfMemory) {
				err = entries[i].decode(c.client.Do(ctx, rueidis.Completed(c.get(keys[i]))))
			}
			if err != nil {
				return ownError(ctx, err)
			}
		}
		return nil
	})
	return entries, err
}

// readMany reads strings from Redis.
func (c *Client) readMany(ctx context.Context, keys []string, entries []Entry) error {
	commands := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		commands[i] = rueidis.Completed(c.get(key))
	}
	for i, result := range c.conn.Send(ctx, c.client, commands) {
		if err := entries[i].decode(result); err != nil {
			return err
		}
	}
	return nil
}

// Settle returns once the client has received all changes of keys that were made before the call, so that it doesn't
// return earlier values. It is for a process that reads its own writes. Redis has sent the names of changed keys on the
// connection on which they are read before it answers there again. Errors: those of Conn.Retry.
func (c *Client) Settle(ctx context.Context, keys ...string) error {
	if !c.tracks {
		return nil // nothing is kept
	}
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
		remaining, err := replies[1].AsInt64()
		if ends = (time.Time{}); remaining != noEnd {
			ends = time.Now().Add(time.Duration(remaining) * time.Millisecond)
		}
		return err
	})
	return fields, ends, err
}

// noEnd is the reply of PTTL for a key without a TTL.
const noEnd = -1

func (c *Client) get(key string) rueidis.Cacheable {
	return c.client.B().Get().Key(c.conn.Prefix() + key).Cache()
}

func (e *Entry) decode(r rueidis.RedisResult) (err error) {
	e.Bytes, err = r.AsBytes()
	e.Found = err == nil
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}

func (c *Client) results(ctx context.Context, commands []rueidis.CacheableTTL) []rueidis.RedisResult {
	if len(commands) == 1 {
		return []rueidis.RedisResult{c.client.DoCache(ctx, commands[0].Cmd, commands[0].TTL)}
	}
	return c.client.DoMultiCache(ctx, commands...)
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
