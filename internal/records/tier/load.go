package tier

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/shard"
)

// loading is a scan of all values. It also runs while values are loaded already: values that it doesn't find are
// removed at its end.
type loading struct {
	walk    Walk      // nil: there is none
	reload  time.Time // when the next one begins
	unread  []string  // IDs to be read
	next    time.Time // when the scan continues
	fetched time.Time // when announcements were fetched last during it
	round   uint8
	served  bool
}

// rests reports whether the walk is paused, so that there is time to wait for announcements.
func (f *follower) rests(now time.Time) bool {
	return len(f.unread) == 0 && f.next.Sub(now) > fetchEvery
}

// load reads the next values of the walk.
func (f *follower) load(ctx context.Context) error {
	if len(f.unread) == 0 {
		pace.Sleep(ctx, time.Until(f.next))
		ids, looked, err := f.walk.Next(ctx)
		if errors.Is(err, io.EOF) {
			return f.loaded(ctx)
		}
		if err != nil {
			return err
		}
		f.next = time.Now().Add(time.Duration(looked) * time.Second / time.Duration(f.o.Rate))
		f.unread = slices.DeleteFunc(ids, f.others)
	}
	for len(f.unread) > 0 {
		some := f.unread[:min(MaxRead, len(f.unread))]
		if err := f.read(ctx, some); err != nil {
			return err
		}
		f.unread = f.unread[len(some):]
	}
	return nil
}

// loaded ends a walk. One that a fail-over has interrupted may have missed keys.
func (f *follower) loaded(ctx context.Context) error {
	if err := f.look(ctx); err != nil {
		return err
	}
	for part := range parts {
		f.table.Sweep(part, true, f.round)
	}
	f.walk, f.reload = nil, time.Now().Add(jittered(f.o.Reload))
	if f.served {
		return nil
	}
	f.served = true
	f.o.Logger.InfoContext(ctx, "the values of a shard are loaded", "cache", f.o.Kind.Name, "shard", f.in, "entries",
		f.table.Len(), "bytes", f.table.Bytes())
	f.serve(f.get)
	return nil
}

// read reads values and puts them into the table.
func (f *follower) read(ctx context.Context, ids []string) error {
	began := time.Now() // their times are counted from here, so that none lives longer than in Redis
	values, err := f.o.Values.Read(ctx, f.o.Kind, ids)
	if err != nil {
		return err
	}
	took := time.Since(began)
	for i, v := range values {
		ttl := v.Left - took
		switch {
		case !v.Found, v.Left > 0 && ttl <= 0:
			f.table.Delete(ids[i])
		case !f.fits(ids[i], len(v.Bytes)):
			f.table.Delete(ids[i])
			f.leftOut.Add(1)
		default:
			f.table.Put(ids[i], v.Bytes, max(0, ttl), f.round)
		}
	}
	return nil
}

// fits reports whether a value fits, replacing the one of its ID.
func (f *follower) fits(id string, size int) bool {
	if f.o.MaxBytes == 0 {
		return true
	}
	if old, ok := f.table.Get(id); ok {
		size -= len(id) + len(old)
	}
	return f.table.Bytes()+int64(len(id)+size) <= f.o.MaxBytes
}

// maxAnswer is how many bytes of values an answer has. One value is always returned; left-out values must be read from
// Redis.
const maxAnswer = 8 << 20

// get implements shard.Reader.
func (f *follower) get(_ context.Context, ids []string) ([]shard.Entry[string, []byte], error) {
	entries, values, size := make([]shard.Entry[string, []byte], 0, len(ids)), make([]string, 0, len(ids)), 0
	for _, id := range ids {
		value, ok := f.table.Get(id)
		if !ok {
			continue
		}
		if size += len(value); size > maxAnswer && len(values) > 0 {
			size -= len(value)
			break
		}
		entries, values = append(entries, shard.Entry[string, []byte]{ID: id}), append(values, value)
	}
	bytes := make([]byte, 0, size)
	for i, value := range values {
		from := len(bytes)
		bytes = append(bytes, value...)
		entries[i].Value = bytes[from:len(bytes):len(bytes)]
	}
	return entries, nil
}
