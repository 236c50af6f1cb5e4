package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
)

// Put caches a value. If that fails, an older value is removed, if Redis can be reached. If several processes write the
// source of truth and then call Put, the order of the Puts can differ from that of the writes: use Write instead.
// Errors: ErrTooLarge; ErrIndexFull; ErrSuperseded for an indexed value that was invalidated or written by another
// meanwhile; those of package fault.
func (c *Cache[T]) Put(ctx context.Context, name string, value T) error {
	if err := c.check(name); err != nil {
		return err
	}
	v, err := c.encode(name, "", value)
	if err == nil && c.indexed(&v) {
		v.Token = id.New()
		_, err = c.store.Claim(ctx, v.Key, c.claim(v.Token, Over))
	}
	if err == nil {
		err = c.store.Store(ctx, v)
	}
	if err != nil && !errors.Is(err, ErrSuperseded) {
		_ = c.remove(ctx, name) // the first error is the one that matters
	}
	return err
}

// ErrStale is the error of Write for a value that was written to the source of truth, while the cache could neither
// store nor remove it.
var ErrStale = errors.New("the value was written, but the cache may still have an older one")

// Write is the write-through strategy: it removes the cached value, calls write, which writes to the source of truth,
// and caches the value. While write runs, other processes wait to load the value; if it takes longer than
// Options.LoadTimeout they load it. Whatever the order in which several processes write, the cache never keeps a value
// that another has overwritten. If Redis can't be reached, write isn't called. Errors: those of Put before write was
// called; write's; ErrStale.
func (c *Cache[T]) Write(ctx context.Context, name string, value T, write func(ctx context.Context) error) error {
	if err := c.check(name); err != nil {
		return err
	}
	v, err := c.encode(name, id.New(), value)
	if err != nil {
		return err
	}
	if _, err := c.store.Claim(ctx, v.Key, c.claim(v.Token, Over)); err != nil {
		return err
	}
	if err := write(ctx); err != nil {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = c.store.End(ending, v.Key, v.Token, 0) // or the claim ends by itself
		return err
	}
	if c.store.Store(ctx, v) == nil {
		return nil
	}
	if err := c.remove(ctx, name); err != nil {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return nil
}

// removeFor is the time limit for removing a value, also after the caller's context has ended.
const removeFor = 5 * time.Second

func (c *Cache[T]) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeFor)
	defer cancel()
	return c.store.Invalidate(ctx, c.o.Kind, []string{name})
}

// Invalidate removes values. After it has returned, no process answers an older value for longer than the notification
// takes to arrive there, and no loader that began earlier stores one. Errors: those of package fault; the values may
// then still be cached.
func (c *Cache[T]) Invalidate(ctx context.Context, ids ...string) error {
	for _, name := range ids {
		if err := c.check(name); err != nil {
			return err
		}
	}
	c.count(Invalidated)
	return c.store.Invalidate(ctx, c.o.Kind, ids)
}

// InvalidateTag removes the values of all caches on the store that have a tag, and returns how many the tag had. The
// guarantees are those of Invalidate. It costs a few commands for each value.
func (c *Cache[T]) InvalidateTag(ctx context.Context, tag string) (int, error) {
	if err := checkTags([]string{tag}); err != nil {
		return 0, err
	}
	c.count(Invalidated)
	return c.store.InvalidateTag(ctx, tag)
}

// errNoPrefixes is the error of InvalidatePrefix for a cache without Options.Prefixes.
var errNoPrefixes = &fault.Error{
	Kind: fault.Invalid, Slug: fault.SlugInvalidID, Field: "prefix",
	Detail: "values of this kind can't be found by the beginning of their IDs",
}

// InvalidatePrefix removes the values of this cache whose IDs begin with a prefix; the empty one removes all.
// Options.Prefixes must be set, also when the values were stored. The guarantees are those of InvalidateTag.
func (c *Cache[T]) InvalidatePrefix(ctx context.Context, prefix string) (int, error) {
	if !c.o.Prefixes {
		return 0, errNoPrefixes
	}
	if prefix != "" {
		if err := c.check(prefix); err != nil {
			return 0, err
		}
	}
	c.count(Invalidated)
	return c.store.InvalidatePrefix(ctx, c.o.Kind, prefix)
}
