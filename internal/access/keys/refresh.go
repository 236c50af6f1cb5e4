package keys

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

const (
	// lookEvery is the interval at which the position of the last change is polled, in case a notification was lost.
	lookEvery = 500 * time.Millisecond
	// forgetEvery is the interval at which ended keys and revocations are removed from memory.
	forgetEvery = time.Minute
	// restoreAtOnce is how many revocations are written back between two reads of the store.
	restoreAtOnce = 100
	// maxUnread is how many of its own changes a server expects to find in the store. If there are more, it reads
	// everything.
	maxUnread = restoreAtOnce + 100
)

// progress is the state of reading the store. It is guarded by Registry.reading.
type progress struct {
	loaded  bool
	at      Position
	unread  []Position           // of changes made here that weren't found in the store yet
	lost    map[revoked]struct{} // revocations that the store has lost, to be written back
	failing bool                 // the last look at the store failed, and that was logged
	loads   atomic.Int64
	current atomic.Int64 // when the store last had no new changes, in nanoseconds since 1970
}

// Run keeps the registry up to date until ctx ends. It returns nil.
func (r *Registry) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	defer r.store.Watch(func() { pace.Signal(changed) })()
	look, forget := time.NewTicker(lookEvery), time.NewTicker(forgetEvery)
	defer look.Stop()
	defer forget.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-forget.C:
			r.forget(time.Now())
			continue
		case <-look.C:
			r.readFile(ctx)
		case <-changed:
		}
		r.report(ctx, r.Refresh(ctx))
	}
}

// report logs the first of several failures, and the first success after them.
func (r *Registry) report(ctx context.Context, err error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	switch {
	case err != nil && !r.failing && ctx.Err() == nil:
		r.log.WarnContext(ctx, "cannot read API keys and revocations, those known stay in force", "error", err)
	case err == nil && r.failing:
		r.log.InfoContext(ctx, "API keys and revocations are read again")
	}
	r.failing = err != nil && ctx.Err() == nil
}

// Refresh reads the changes in the store: all data the first time, and after the store has lost changes.
func (r *Registry) Refresh(ctx context.Context) error {
	r.reading.Lock()
	defer r.reading.Unlock()
	for {
		r.takeWritten()
		last, err := r.store.Last(ctx)
		if err != nil {
			return err
		}
		switch {
		case !r.loaded || len(r.unread) > maxUnread:
			err = r.load(ctx, last)
		case last != r.at || len(r.unread) > 0:
			err = r.follow(ctx)
		case len(r.lost) > 0:
			err = r.restore(ctx)
		default:
			r.current.Store(time.Now().UnixNano())
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// wrote notes the position of a change that this server has made. The server knows the change already: reading its
// position from the store only shows that the store hasn't lost it.
func (r *Registry) wrote(at Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at != "" && len(r.written) <= maxUnread {
		r.written = append(r.written, at)
	}
}

// takeWritten adds the changes that this server has made until now to those that it expects to read from the store.
func (r *Registry) takeWritten() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread = append(r.unread, r.written...)
	r.written = nil
}

// follow reads the changes after the last known one, and finds this server's own among them. If the store has lost one
// of these, everything is read next.
func (r *Registry) follow(ctx context.Context) error {
	for {
		changes, err := r.store.Changes(ctx, r.at, r.unread...)
		if errors.Is(err, ErrLost) {
			if r.at != "" { // there was none before the first
				r.log.WarnContext(ctx, "changes of API keys and revocations were lost, reading all of them")
			}
			r.loaded = false
			return nil
		}
		if err != nil {
			return err
		}
		r.apply(ctx, changes.Entries...)
		for _, e := range changes.Entries {
			if e.Revocation != nil {
				delete(r.lost, e.Revocation.of())
			}
		}
		if r.at = changes.At; !changes.More {
			r.unread = nil
			return nil
		}
	}
}

// load reads everything. last is the position of the last change before that.
func (r *Registry) load(ctx context.Context, last Position) error {
	fresh := known{stored: map[string]*entry{}, revoked: map[revoked]Revocation{}}
	now := time.Now()
	err := r.store.Each(ctx, func(e Entry) {
		if err := fresh.apply(e, now); err != nil {
			r.log.ErrorContext(ctx, "an API key can't be used", "error", err)
		}
	})
	if err != nil {
		return fmt.Errorf("load API keys and revocations: %w", err)
	}
	r.mu.Lock()
	r.lost = fresh.keep(r.known, now)
	fresh.filed = r.known.filed
	r.known = fresh
	r.mu.Unlock()
	r.loaded, r.at, r.unread = true, last, nil
	r.loads.Add(1)
	r.notify()
	return nil
}

// keep adds the revocations of old that are missing, and returns them. It reuses the entries of unchanged keys, whose
// principals are in use.
func (k *known) keep(old known, now time.Time) map[revoked]struct{} {
	missing := map[revoked]struct{}{}
	for of, r := range old.revoked {
		if found, ok := k.revoked[of]; (!ok || found.At.Before(r.At)) && now.Before(r.Until) &&
			len(k.revoked) < 2*MaxRevocations {
			missing[of] = struct{}{}
			k.revoke(r)
		}
	}
	for id, e := range k.stored {
		if same := old.stored[id]; same != nil && same.equal(e) {
			k.stored[id] = same
		}
	}
	return missing
}

func (e *entry) equal(other *entry) bool {
	a, errA := e.record()
	b, errB := other.record()
	return errors.Join(errA, errB) == nil && slices.Equal(a.Value, b.Value)
}

// restore puts back some of the revocations that the store has lost.
func (r *Registry) restore(ctx context.Context) error {
	remaining := restoreAtOnce
	for of := range r.lost {
		if remaining--; remaining < 0 {
			break
		}
		r.mu.RLock()
		lost, ok := r.known.revoked[of]
		r.mu.RUnlock()
		if ok {
			_, at, err := r.store.Revoke(ctx, lost, MaxRevocations)
			r.wrote(at)
			if errors.Is(err, ErrTooManyRevocations) { // there is room for deletions of keys only
				maps.DeleteFunc(r.lost, func(of revoked, _ struct{}) bool { return of.kind != RevokedKey })
			} else if err != nil {
				return fmt.Errorf("put a revocation back: %w", err)
			}
		}
		delete(r.lost, of)
	}
	if len(r.lost) == 0 {
		r.log.WarnContext(ctx, "revocations were missing in the storage, put back")
	}
	return nil
}

// apply applies values of the store, and notifies listeners: something was revoked, or a key has changed.
func (r *Registry) apply(ctx context.Context, entries ...Entry) {
	now := time.Now()
	r.mu.Lock()
	for _, e := range entries {
		if err := r.known.apply(e, now); err != nil {
			r.log.ErrorContext(ctx, "an API key can't be used", "error", err)
		}
	}
	r.mu.Unlock()
	r.notify()
}

// apply applies one value of the store. The error is that of a key's record.
func (k *known) apply(e Entry, now time.Time) error {
	switch {
	case e.Revocation != nil && (e.Revocation.Until.IsZero() || now.Before(e.Revocation.Until)):
		k.revoke(*e.Revocation)
	case e.Record != nil:
		key, err := parseRecord(*e.Record)
		if err != nil {
			return err
		}
		return k.add(key)
	}
	return nil
}

// add adds a key of the store.
func (k *known) add(key Key) error {
	if k.deleted(key.ID) {
		return nil
	}
	p, err := key.check()
	if err != nil {
		return fmt.Errorf("API key %s: %w", key.ID, err)
	}
	e := &entry{Key: key, principal: p}
	if same := k.stored[key.ID]; same == nil || !same.equal(e) {
		k.stored[key.ID] = e
	}
	return nil
}

// revoke adds a revocation, or extends an existing one. Without an end it is that of a deleted key, and only removes
// the key.
func (k *known) revoke(r Revocation) {
	if r.Kind == RevokedKey {
		delete(k.stored, r.Name)
	}
	if r.Until.IsZero() {
		return
	}
	if found, ok := k.revoked[r.of()]; ok {
		r.At, r.Until = later(r.At, found.At), later(r.Until, found.Until)
	}
	k.revoked[r.of()] = r
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// forget removes revocations that have ended, and keys that expired long ago.
func (r *Registry) forget(now time.Time) {
	var ended []revoked
	r.mu.RLock()
	for of, revocation := range r.known.revoked {
		if !now.Before(revocation.Until) {
			ended = append(ended, of)
		}
	}
	r.mu.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range ended {
		if !now.Before(r.known.revoked[of].Until) {
			delete(r.known.revoked, of)
		}
	}
	maps.DeleteFunc(r.known.stored, func(_ string, e *entry) bool {
		return !e.Expires.IsZero() && now.After(e.Expires.Add(ExpiredLife))
	})
}
