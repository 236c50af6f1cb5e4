package cache_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entry is the state of an ID in a store.
type entry struct {
	data    []byte // nil: no value
	ends    time.Time
	token   string // of the claim
	absent  bool
	claimed time.Time // until then

	values, claims int  // rise with each change
	watched        bool // changes of the claim are reported
	report         bool // something has changed
}

func (e *entry) setValue(data []byte, ttl time.Duration) {
	e.data, e.ends, e.report = data, time.Time{}, true
	if ttl > 0 {
		e.ends = time.Now().Add(ttl)
	}
	e.values++
}

func (e *entry) setClaim(token string, absent bool, ttl time.Duration) {
	e.token, e.absent, e.claimed = token, absent, time.Now().Add(ttl)
	e.report = e.report || e.watched
	e.watched = false
	e.claims++
}

// fake is an in-memory store of one kind. Caches on it act as those of several processes, which are notified of each
// change at once.
type fake struct {
	cache.Invalidator // methods that are not implemented panic

	mu        sync.Mutex
	entries   map[string]*entry
	calls     int
	listeners []cache.Listener
	reading   func() // called after a read, before its answer
	counts    map[cache.Event]int
}

// run runs a test in a bubble, with the caches of two processes on one store.
func run(t *testing.T, o cache.Options[string], test func(t *testing.T, f *fake, one, other *cache.Cache[string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{entries: map[string]*entry{}, counts: map[cache.Event]int{}}
		o.Metrics = f
		if o.Kind == nil {
			o.Kind = records.Author
		}
		one, other := cache.New(f, o), cache.New(f, o)
		defer other.Close()
		defer one.Close()
		test(t, f, one, other)
	})
}

func (f *fake) Count(_ *records.Kind, e cache.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[e]++
}

func (f *fake) of(e cache.Event) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[e]
}

// at returns the current state of an ID. The caller holds the lock.
func (f *fake) at(id string) *entry {
	e := f.entries[id]
	if e == nil {
		e = &entry{}
		f.entries[id] = e
	}
	if now := time.Now(); e.data != nil && !e.ends.IsZero() && !now.Before(e.ends) {
		e.data = nil
	} else if !now.Before(e.claimed) {
		e.token, e.absent = "", false
	}
	return e
}

// change applies a change to an ID, and reports it.
func (f *fake) change(id string, do func(e *entry) error) error {
	f.mu.Lock()
	f.calls++
	e := f.at(id)
	err := do(e)
	report := e.report
	e.report = false
	f.mu.Unlock()
	if report {
		for _, l := range f.listeners {
			l.Changed(id)
		}
	}
	return err
}

// fresh returns Entry.Fresh. The caller holds the lock.
func (f *fake) fresh(version *int) func() bool {
	then := *version
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return *version == then
	}
}

func (f *fake) Read(_ context.Context, _ *records.Kind, ids []string) (found []cache.Entry, err error) {
	f.mu.Lock()
	f.calls++
	for _, id := range ids {
		e := f.at(id)
		until := e.ends
		if until.IsZero() {
			until = time.Now().Add(time.Hour)
		}
		found = append(found, cache.Entry{Found: e.data != nil, Bytes: e.data, Until: until, Fresh: f.fresh(&e.values)})
	}
	reading := f.reading
	f.mu.Unlock()
	if reading != nil {
		reading()
	}
	return found, nil
}

func (f *fake) Watch(_ context.Context, key cache.Key) (cache.Watched, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	e := f.at(key.ID)
	e.watched = true
	return cache.Watched{Absent: e.absent, Entry: cache.Entry{Found: e.token != "" || e.absent, Until: e.claimed,
		Fresh: f.fresh(&e.claims)}}, nil
}

func (f *fake) Listen(_ *records.Kind, l cache.Listener) (stop func()) {
	f.listeners = append(f.listeners, l)
	return func() {}
}

func (f *fake) Claim(_ context.Context, key cache.Key, c cache.Claim) (claimed cache.Claimed, err error) {
	err = f.change(key.ID, func(e *entry) error {
		switch left := time.Until(e.claimed); {
		case c.Mode == cache.Over:
			e.setValue(nil, 0)
			e.setClaim(c.Token, false, c.TTL)
		case c.Mode == cache.Fill && e.data != nil:
			claimed = cache.Claimed{Outcome: cache.Stored, Bytes: e.data}
		case e.absent:
			claimed = cache.Claimed{Outcome: cache.Absent, Left: left}
		case e.token != "":
			claimed = cache.Claimed{Outcome: cache.Busy, Left: left}
		default:
			e.setClaim(c.Token, false, c.TTL)
		}
		return nil
	})
	return claimed, err
}

func (f *fake) Store(_ context.Context, v cache.Value) error {
	return f.change(v.Key.ID, func(e *entry) error {
		if v.Token != "" && v.Token != e.token {
			return cache.ErrSuperseded
		}
		e.setValue(v.Bytes, v.TTL)
		e.setClaim("", false, 0)
		return nil
	})
}

func (f *fake) End(_ context.Context, key cache.Key, token string, absent time.Duration) error {
	return f.change(key.ID, func(e *entry) error {
		if token == e.token {
			e.setClaim("", absent > 0, absent)
		}
		return nil
	})
}

func (f *fake) Invalidate(_ context.Context, _ *records.Kind, ids []string) error {
	for _, id := range ids {
		_ = f.change(id, func(e *entry) error {
			e.setValue(nil, 0)
			e.setClaim("", false, 0)
			return nil
		})
	}
	return nil
}

// always returns a loader that returns a value.
func always(value string) cache.Loader[string] {
	return func(context.Context) (string, error) { return value, nil }
}

// requireLoad requires that a call returns a value, and checks whether it loads it.
func requireLoad(t *testing.T, c *cache.Cache[string], id string, load cache.Loader[string], want string) {
	t.Helper()
	value, err := c.Load(t.Context(), id, load)
	require.NoError(t, err)
	require.Equal(t, want, value)
}
