package tier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/shard"
)

// Timing and bounds of a follower.
const (
	maxMessages = 100                    // of a fetch
	maxWaiting  = 1_000_000              // IDs of writes that haven't ended
	idleWait    = 20 * time.Second       // of a fetch, at most
	fetchEvery  = 100 * time.Millisecond // while values are loaded
	lookEvery   = 5 * time.Second        // for another life of Redis, and for values that have ended
	sweepParts  = 4                      // of the table each time: the whole in 80 s
	firstPause  = 50 * time.Millisecond  // after an error that may pass
	lastPause   = 2 * time.Second
	goodbye     = 2 * time.Second // for the end of the subscriber
)

// follower keeps the values of one interval up to date. One goroutine does all of it sequentially, so that a value put
// into the table was read after the one that it replaces.
type follower struct {
	o          *SourceOptions
	refreshes  *refreshes
	in         shard.Interval
	table      *table
	subscriber string
	serve      func(shard.Reader[string, string, []byte])

	announced
	loading

	looked    time.Time // when the lives were read last
	lookedFor uint64    // the last refresh before that
	readLives string    // the lives
	sweep     int       // next part
	leftOut   atomic.Int64
}

// announced is the state of announcements that aren't applied yet.
type announced struct {
	writes  map[string]write          // that haven't ended
	queue   []string                  // of writes, in the order in which they are due, with some that have ended
	waiting int                       // IDs of writes
	dirty   map[string]struct{}       // IDs to be read
	receipt string                    // of the fetched messages that aren't acknowledged
	last    string                    // the last receipt, by which a loss is noticed
	more    bool                      // there is more to fetch, which is done first
	readFor uint64                    // the last refresh before a fetch after which there was no more
	oldest  atomic.Pointer[time.Time] // when the first message was published that isn't applied yet; nil: there is none
}

// write is a write that may not have ended.
type write struct {
	ids []string
	due time.Time // latest time at which it has ended
}

func (f *follower) run(ctx context.Context) error {
	wait := firstPause
	for ctx.Err() == nil {
		err := f.step(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			wait = firstPause
		case !mayPass(err):
			return err
		default:
			f.o.Logger.WarnContext(ctx, "cannot follow the values of a shard, trying again", "cache", f.o.Kind.Name,
				"error", err)
			waiting, _, stop := f.refreshes.wait(ctx)
			pace.Sleep(waiting, wait)
			stop()
			wait = min(2*wait, lastPause)
		}
	}
	return context.Cause(ctx)
}

// mayPass reports whether an error is temporary, so that the call is retried.
func mayPass(err error) bool {
	var clientErr *fault.Error
	return errors.As(err, &clientErr) && clientErr.Kind == fault.Unavailable
}

// step applies the announced changes, and then waits for more, or loads more.
func (f *follower) step(ctx context.Context) error {
	f.collect(time.Now())
	if err := f.apply(ctx); err != nil {
		return err
	}
	refresh := f.refreshes.last()
	if refresh > f.lookedFor || time.Since(f.looked) >= lookEvery {
		if err := f.look(ctx); err != nil {
			return err
		}
		f.lookedFor = refresh
	}
	if f.served {
		f.refreshes.finish(min(f.lookedFor, f.readFor))
	}
	now := time.Now()
	if f.walk == nil && !now.Before(f.reload) {
		f.walk, f.round = f.o.Values.Walk(f.o.Kind), f.round+1
		f.leftOut.Store(0)
	}
	wait := time.Duration(0)
	switch {
	case f.more, refresh > f.readFor:
	case f.walk == nil, f.rests(now):
		wait = f.idle(now)
	case now.Sub(f.fetched) < fetchEvery:
		return f.load(ctx)
	}
	f.fetched = now
	return f.fetch(ctx, wait)
}

// idle returns how long the follower may wait for announcements.
func (f *follower) idle(now time.Time) time.Duration {
	until := now.Add(idleWait)
	if len(f.queue) > 0 {
		until = earlier(until, f.writes[f.queue[0]].due)
	}
	next := f.reload
	if f.walk != nil {
		next = f.next
	}
	return max(time.Millisecond, earlier(earlier(until, next), f.looked.Add(lookEvery)).Sub(now))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// fetch acknowledges the applied announcements, and reads new ones. A refresh ends its wait.
func (f *follower) fetch(ctx context.Context, wait time.Duration) error {
	started := time.Now()
	waiting, refresh, stop := f.refreshes.wait(ctx)
	defer stop()
	if refresh > f.readFor {
		wait = 0
	}
	d, err := f.o.Channels.Next(waiting, channel.Query{
		Channel: Channel(f.o.Kind), Subscriber: f.subscriber, Max: maxMessages, Wait: wait, Last: f.last,
	}, f.receipt)
	var clientErr *fault.Error
	switch {
	case err != nil && waiting.Err() != nil && ctx.Err() == nil:
		return nil
	case errors.Is(err, channel.ErrNoSubscriber), errors.As(err, &clientErr) && clientErr.Kind == fault.Conflict:
		return fmt.Errorf("%w: %w", ErrGap, err)
	case err != nil:
		return err
	case d.Expired+d.Purged+d.Damaged > 0:
		return fmt.Errorf("%w: %d messages expired, were purged or are damaged", ErrGap,
			d.Expired+d.Purged+d.Damaged)
	}
	if d.Lost {
		return fmt.Errorf("%w: Redis has lost writes, or the channel began another life", ErrGap)
	}
	if f.receipt, f.more = d.Receipt, d.More; d.Receipt != "" {
		f.last = d.Receipt
	}
	if !d.More {
		f.readFor = refresh
	}
	for i := range d.Messages {
		if err := f.note(ctx, &d.Messages[i]); err != nil {
			return err
		}
	}
	if len(d.Messages) == 0 && time.Since(started) < wait { // the service ends waits early when it shuts down
		pace.Sleep(waiting, min(wait, firstPause))
	}
	return nil
}

// note records the changes that a message announces.
func (f *follower) note(ctx context.Context, m *channel.Message) error {
	now := time.Now()
	f.oldest.CompareAndSwap(nil, &m.PublishedAt)
	changes, err := DecodeChanges(m.Content)
	if err != nil { // the changes are found by reading everything again
		f.o.Logger.ErrorContext(ctx, "cannot read an announcement, loading all values again", "cache", f.o.Kind.Name,
			"error", err)
		f.walk, f.unread, f.reload = nil, nil, now
		return nil
	}
	for _, c := range changes {
		f.end(c.Write)
		mine := slices.DeleteFunc(c.IDs, f.others)
		switch {
		case len(mine) == 0:
		case c.Over:
			f.spoil(mine)
		default:
			f.writes[c.Write] = write{mine, now.Add(MaxWrite)}
			f.queue, f.waiting = append(f.queue, c.Write), f.waiting+len(mine)
		}
	}
	if f.waiting > maxWaiting {
		return fmt.Errorf("%w: more than %d values are written at once", ErrGap, maxWaiting)
	}
	return nil
}

// others reports whether an ID isn't in the interval, or is invalid for cached values.
func (f *follower) others(id string) bool {
	return !f.in.Contains(shard.HashString(id)) || records.CheckQuery("id", id) != nil
}

// end removes a write.
func (f *follower) end(name string) {
	f.waiting -= len(f.writes[name].ids)
	delete(f.writes, name)
}

// spoil marks IDs as dirty.
func (f *follower) spoil(ids []string) {
	for _, id := range ids {
		f.dirty[id] = struct{}{}
	}
}

// collect marks the IDs of writes that must have ended as dirty. Afterwards the first write in the queue hasn't ended.
func (f *follower) collect(now time.Time) {
	for len(f.queue) > 0 {
		name := f.queue[0]
		w, there := f.writes[name]
		if there && now.Before(w.due) {
			return
		}
		f.spoil(w.ids)
		f.end(name)
		f.queue = f.queue[1:]
	}
}

// apply reads all dirty IDs.
func (f *follower) apply(ctx context.Context) error {
	ids := make([]string, 0, min(len(f.dirty), MaxRead))
	for len(f.dirty) > 0 {
		ids = ids[:0]
		for id := range f.dirty {
			if ids = append(ids, id); len(ids) == MaxRead {
				break
			}
		}
		if err := f.read(ctx, ids); err != nil {
			return err
		}
		for _, id := range ids {
			delete(f.dirty, id)
		}
	}
	f.oldest.Store(nil)
	return nil
}

// look checks for another life of Redis, and removes some of the expired values.
func (f *follower) look(ctx context.Context) error {
	f.looked = time.Now()
	for range sweepParts {
		f.table.Sweep(f.sweep, false, 0)
		f.sweep = (f.sweep + 1) % parts
	}
	lives, err := f.lives(ctx)
	if err == nil && lives != f.readLives {
		err = fmt.Errorf("%w: a Redis was promoted or restarted, and may have lost its last writes", ErrGap)
	}
	return err
}

// lives returns text that changes when a Redis may have lost writes.
func (f *follower) lives(ctx context.Context) (string, error) {
	values, err := f.o.Values.Life(ctx)
	if err != nil {
		return "", err
	}
	channels, err := f.o.Life(ctx)
	return values + " " + channels, err
}

func (f *follower) unsubscribe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	_ = f.o.Channels.Unsubscribe(ctx, Channel(f.o.Kind), f.subscriber, channel.AnyLife) // or it ends by itself
}
