package cache

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/records"
)

// The defaults of Options.
const (
	DefaultNegativeTTL = 5 * time.Second
	DefaultEarly       = 0.2
	DefaultLoadTimeout = 5 * time.Second
	DefaultMaxLoads    = 64
	DefaultLocalBytes  = 32 << 20
)

// MaxLoadTimeout is the longest Options.LoadTimeout.
const MaxLoadTimeout = 50 * time.Second

const (
	jitter     = 0.1                    // of a TTL: values stored together expire at different times
	earlyPause = 5 * time.Second        // between two early loads of a value
	patience   = 500 * time.Millisecond // timeout of Redis, after which a value is loaded without it
	downFor    = time.Second            // pause of requests to Redis after a timeout
	claimSlack = 2 * time.Second        // how much longer a claim lasts than its loader may run
)

// Options configures a Cache. Kind is needed.
type Options[T any] struct {
	Kind  *records.Kind // of strings with one placeholder
	Codec Codec[T]      // nil: JSON
	// TTL is how long values live, up to a tenth less; zero: Kind.TTL. If that is zero, too, they live until they are
	// invalidated, or MaxTaggedTTL if they are indexed.
	TTL time.Duration
	// NegativeTTL is how long the result ErrNotFound of a loader is cached; zero: DefaultNegativeTTL; negative: not at
	// all.
	NegativeTTL time.Duration
	// Early is the last part of a value's TTL in which Load loads it again in the background, at a random time; zero:
	// DefaultEarly; negative: never.
	Early float64
	// LoadTimeout is how long a loader may take, up to MaxLoadTimeout; zero: DefaultLoadTimeout. It is also how long
	// other processes wait if the loading process dies.
	LoadTimeout time.Duration
	// MaxLoads is how many loaders may run at once in this process; zero: DefaultMaxLoads.
	MaxLoads int
	// LocalBytes is how much memory decoded values may take, about; zero: DefaultLocalBytes; negative: none are kept.
	LocalBytes int
	// Tags returns the tags of a value, for InvalidateTag; nil: none. At most 16.
	Tags func(id string, value T) []string
	// Prefixes makes InvalidatePrefix find the values, for one more write to Redis with each.
	Prefixes bool
	// Metrics counts events; nil: none are counted.
	Metrics Metrics
}

// Cache keeps the values of one kind. It may be used by many goroutines.
type Cache[T any] struct {
	o       Options[T]
	store   Store
	local   *local[T]
	flights flights[T]
	loads   chan struct{} // one for each loader that runs
	down    down
	stop    func()
}

// New returns a cache on a store. Close ends it. It panics for a kind that has no values to cache, which is a mistake
// of the program.
func New[T any](store Store, o Options[T]) *Cache[T] {
	if o.Kind.Type != records.String || len(o.Kind.Parts()) != 1 {
		panic("cache: " + o.Kind.Name + " isn't a kind of strings with one placeholder")
	}
	if o.Codec == nil {
		o.Codec = JSON[T]{}
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	o.TTL = cmp.Or(o.TTL, o.Kind.TTL)
	o.NegativeTTL = cmp.Or(o.NegativeTTL, DefaultNegativeTTL)
	o.Early = cmp.Or(o.Early, DefaultEarly)
	o.LoadTimeout = min(cmp.Or(o.LoadTimeout, DefaultLoadTimeout), MaxLoadTimeout)
	c := &Cache[T]{
		o: o, store: store, local: newLocal[T](cmp.Or(o.LocalBytes, DefaultLocalBytes)),
		flights: newFlights[T](), loads: make(chan struct{}, cmp.Or(o.MaxLoads, DefaultMaxLoads)),
	}
	c.stop = store.Listen(o.Kind, Listener{Changed: c.changed, Lost: c.lost})
	return c
}

// Close cancels all loads, and waits for them, except for loaders that ignore the end of their context.
func (c *Cache[T]) Close() {
	c.stop()
	c.flights.close()
}

// changed is called when a value, or its claim, has changed in Redis.
func (c *Cache[T]) changed(id string) {
	c.local.drop(id)
	c.flights.wake(id)
}

func (c *Cache[T]) lost() {
	c.local.dropAll()
	c.flights.wakeAll()
}

func (c *Cache[T]) count(e Event) { c.o.Metrics.Count(c.o.Kind, e) }

func (c *Cache[T]) key(id string) Key { return Key{Kind: c.o.Kind, ID: id} }

// check checks an ID.
func (c *Cache[T]) check(id string) error { return records.CheckQuery("id", id) }

// Get returns a cached value without loading it. Errors: ErrNotFound if it is not cached; those of package fault; those
// of the codec.
func (c *Cache[T]) Get(ctx context.Context, id string) (T, error) {
	if k, _ := c.local.get(id); k != nil {
		return c.answer(k)
	}
	found, err := c.GetMany(ctx, []string{id})
	value, ok := found[id]
	if err == nil && !ok {
		err = ErrNotFound
	}
	return value, err
}

func (c *Cache[T]) answer(k *kept[T]) (T, error) {
	c.count(HitLocal)
	if k.absent {
		return k.value, ErrNotFound
	}
	return k.value, nil
}

// GetMany returns those of the values that are cached, by ID. It needs one round trip to each node of Redis at most.
// Errors: those of Get, except ErrNotFound.
func (c *Cache[T]) GetMany(ctx context.Context, ids []string) (map[string]T, error) {
	found := make(map[string]T, len(ids))
	var missing []string
	for _, id := range ids {
		if err := c.check(id); err != nil {
			return nil, err
		}
		switch k, _ := c.local.get(id); {
		case k == nil:
			missing = append(missing, id)
		case !k.absent:
			found[id] = k.value
			c.count(HitLocal)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	entries, err := c.store.Read(ctx, c.o.Kind, missing)
	if err != nil {
		return nil, err
	}
	for i, id := range missing {
		if !entries[i].Found {
			c.count(Miss)
			continue
		}
		if found[id], err = c.take(id, entries[i]); err != nil {
			return nil, fmt.Errorf("%s %q: %w", c.o.Kind.Name, id, err)
		}
	}
	return found, nil
}

// take decodes an entry, and keeps the value in memory.
func (c *Cache[T]) take(id string, e Entry) (T, error) {
	value, err := c.o.Codec.Decode(e.Bytes)
	if err != nil {
		c.count(Undecodable)
		return value, err
	}
	c.count(HitRedis)
	c.local.keep(id, &kept[T]{value: value, bytes: int64(len(e.Bytes)), until: e.Until, early: c.early(e.Until)},
		e.Fresh)
	return value, nil
}

// early returns when a value that ends is loaded again: at a random time in the last part of its TTL.
func (c *Cache[T]) early(until time.Time) time.Time {
	if c.o.TTL == 0 || c.o.Early < 0 {
		return time.Time{}
	}
	part := float64(c.o.TTL) * c.o.Early
	return until.Add(-time.Duration(part * rand.Float64())) //nolint:gosec // no secret
}

// ttl returns how long a value lives.
func (c *Cache[T]) ttl(indexed bool) time.Duration {
	ttl := c.o.TTL
	if indexed && (ttl == 0 || ttl > MaxTaggedTTL) {
		ttl = MaxTaggedTTL
	}
	return ttl - time.Duration(float64(ttl)*jitter*rand.Float64()) //nolint:gosec // no secret
}

// claim returns a claim on a value.
func (c *Cache[T]) claim(token string, mode Mode) Claim {
	return Claim{Token: token, TTL: c.o.LoadTimeout + claimSlack, Mode: mode, Prefixed: c.o.Prefixes}
}

// encode encodes a value to be stored under a claim that is about to be made.
func (c *Cache[T]) encode(id, token string, value T) (Value, error) {
	v := Value{Key: c.key(id), Token: token, Began: time.Now()}
	data, err := c.o.Codec.Encode(value)
	switch {
	case err != nil:
		return v, fmt.Errorf("encode %s %q: %w", c.o.Kind.Name, id, err)
	case len(data) > c.o.Kind.MaxBytes:
		return v, ErrTooLarge
	}
	v.Bytes = data
	if c.o.Tags != nil {
		v.Tags = c.o.Tags(id, value)
	}
	v.TTL = c.ttl(c.indexed(&v))
	return v, checkTags(v.Tags)
}

// indexed reports whether a value is in an index.
func (c *Cache[T]) indexed(v *Value) bool { return c.o.Prefixes || len(v.Tags) > 0 }

// maxTags is how many tags a value may have.
const maxTags = 16

func checkTags(tags []string) error {
	if len(tags) > maxTags {
		return fmt.Errorf("%w: a value has %d tags, at most %d are allowed", ErrIndexFull, len(tags), maxTags)
	}
	for _, tag := range tags {
		if err := records.CheckID("tag", tag); err != nil {
			return err
		}
	}
	return nil
}

// down records that Redis did not answer.
type down struct {
	mu    sync.Mutex
	until time.Time
}

func (d *down) is() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.until)
}

func (d *down) report() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = time.Now().Add(downFor)
}
