package keys_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access/keys"
)

// fake is a store in memory, which can lose its data and be unreachable.
type fake struct {
	mu       sync.Mutex
	records  map[string]keys.Record
	revoked  map[string]keys.Revocation
	changes  []change
	history  int   // counts losses
	err      error // of every call
	watchers map[*func()]struct{}
	reads    int // calls of Each
}

// change is a change, and the history that it belongs to.
type change struct {
	what    string
	history int
}

func newFake() *fake {
	return &fake{records: map[string]keys.Record{}, revoked: map[string]keys.Revocation{},
		watchers: map[*func()]struct{}{}}
}

func (f *fake) note(what string) {
	f.changes = append(f.changes, change{what, f.history})
	for changed := range f.watchers {
		(*changed)()
	}
}

func (f *fake) Create(_ context.Context, r keys.Record, limit int) (keys.Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.err != nil:
		return "", f.err
	case len(f.records) >= limit:
		return "", keys.ErrTooManyKeys
	}
	f.records[r.ID] = r
	f.note(r.ID)
	return f.position(len(f.changes)), nil
}

func (f *fake) Revoke(_ context.Context, r keys.Revocation, limit int) (keys.Revocation, keys.Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := string(r.Kind) + ":" + r.Name
	_, ok := f.records[r.Name]
	switch {
	case f.err != nil:
		return r, "", f.err
	case r.Kind == keys.RevokedKey && !ok && r.At.IsZero():
		return r, "", keys.ErrNoKey
	case len(f.revoked) >= limit:
		return r, "", keys.ErrTooManyRevocations
	}
	if r.At.IsZero() {
		r.At = time.Now()
	}
	if r.Until.IsZero() {
		r.Until = r.At.Add(keys.DefaultLife)
	}
	if r.Kind == keys.RevokedKey {
		delete(f.records, r.Name)
	}
	f.revoked[name] = r
	f.note(name)
	return r, f.position(len(f.changes)), nil
}

func (f *fake) position(n int) keys.Position {
	if n == 0 {
		return ""
	}
	return keys.Position(fmt.Sprint(n, " ", f.changes[n-1].history))
}

func (f *fake) Last(context.Context) (keys.Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.position(len(f.changes)), f.err
}

func (f *fake) Changes(_ context.Context, after keys.Position, others ...keys.Position) (keys.Changes, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	places := map[keys.Position]int{}
	for n := range f.changes {
		places[f.position(n+1)] = n + 1
	}
	for _, position := range append(others, after) {
		if places[position] == 0 {
			return keys.Changes{}, keys.ErrLost
		}
	}
	n, changes := places[after], keys.Changes{At: after}
	for i, c := range f.changes[n:min(n+2, len(f.changes))] { // two at a time
		changes.At = f.position(n + i + 1)
		changes.Entries = append(changes.Entries, f.entry(c.what))
	}
	changes.More = len(changes.Entries) == 2
	return changes, f.err
}

func (f *fake) entry(what string) keys.Entry {
	if r, ok := f.revoked[what]; ok {
		return keys.Entry{Revocation: &r}
	}
	if r, ok := f.records[what]; ok {
		return keys.Entry{Record: &r}
	}
	if kind, name, ok := strings.Cut(what, ":"); ok {
		return keys.Entry{Revocation: &keys.Revocation{Kind: keys.Kind(kind), Name: name}}
	}
	return keys.Entry{}
}

func (f *fake) Each(_ context.Context, read func(keys.Entry)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	for _, what := range slices.Concat(slices.Collect(maps.Keys(f.records)), slices.Collect(maps.Keys(f.revoked))) {
		read(f.entry(what))
	}
	return f.err
}

func (f *fake) Watch(changed func()) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers[&changed] = struct{}{}
	changed()
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, &changed)
	}
}

// lose resets the store to earlier records and revocations.
func (f *fake) lose(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.history++
}

// mute stops notifications.
func (f *fake) mute() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.watchers)
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// has returns the contents of the store.
func (f *fake) has() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(maps.Collect(func(yield func(string, bool) bool) {
		for id := range f.records {
			yield(id, true)
		}
		for name := range f.revoked {
			yield(name, true)
		}
	})))
}
