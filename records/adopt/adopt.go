// Package adopt takes over the records that Discours.io's applications have written to Redis, while they still run.
//
// Their keys have no braces, which distinguishes them from those of this service. [Run] walks over all keys of a
// [Source], and writes records to a [Target]. It can be stopped at any time, repeated, and run twice at once: each
// record is written in one step together with what it was taken over from, and only if both are as they were read.
//
// So it is known of each record whether the application or the service has changed it since. The service's change
// counts: a value that it has replaced or removed isn't taken over again. One that only the application has changed is
// replaced. A counter gets what the application has counted since.
package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/counters"
	"github.com/tidemark-dev/tidemark/records/entities"
	"github.com/tidemark-dev/tidemark/records/tokens"
)

// Text is a string in Redis.
type Text struct {
	Found     bool
	WrongType bool // it isn't a string; Value is empty
	Value     string
	Left      time.Duration // its life; negative: it is permanent
}

// Wait waits until this many more keys, or fields of one, may be read.
type Wait func(ctx context.Context, keys int) error

// Source is the Redis of Discours.io's applications. Its keys are without the prefix.
type Source interface {
	// Count returns the approximate number of keys, those of other prefixes included.
	Count(ctx context.Context) (int64, error)
	// Pages calls do with the names of all keys, in pages. It calls wait before each. A key that exists throughout is in
	// at least one of them.
	Pages(ctx context.Context, wait Wait, do func(ctx context.Context, names []string) error) error
	// Read returns the texts of keys, in their order. Of one that is longer than most, it returns most+1 bytes.
	Read(ctx context.Context, keys []string, most int) ([]Text, error)
	// Hash returns the fields of a hash. It calls wait before each page of them, and stops when there are more than
	// most. Errors: ErrNoHash.
	Hash(ctx context.Context, key string, most int, wait Wait) (map[string]string, error)
	// Remove removes a key unless it has changed: was is its text, or the number of its fields. Errors: ErrChanged.
	Remove(ctx context.Context, key, was string) error
}

// Ref names a record of the service.
type Ref struct {
	Kind  *records.Kind
	Parts []string
}

// State is the state of a record.
type State struct {
	Text
	Adopted string        // what was taken over before: the digest of a text, or a number of views; "": nothing
	Keeps   time.Duration // how long that is remembered; negative: permanently
}

// Change is a change of a record.
type Change struct {
	Writes  bool          // otherwise only Adopted is written
	Value   string        // of the record
	Life    time.Duration // of the record; 0: it is permanent
	Adopted string        // what is taken over
	Keep    time.Duration // how long that is remembered; 0: permanently
}

// Target is the Redis of this service.
type Target interface {
	// States returns the states of records of one kind, in their order.
	States(ctx context.Context, of []Ref) ([]State, error)
	// Put changes a record, in one step. Errors: ErrChanged if it isn't as it was, also because an earlier try has
	// succeeded; settings.ErrTooMany.
	Put(ctx context.Context, of Ref, was State, c Change) error
	// Forget removes the mark of a record whose key of Discours.io was removed, unless the mark has changed.
	Forget(ctx context.Context, of Ref, adopted string) error
	// Fields returns those of some fields of a hash that exist.
	Fields(ctx context.Context, of Ref, names []string) (map[string]string, error)
	// AddNewSlugs adds the slugs that the service doesn't have.
	AddNewSlugs(ctx context.Context, slugs map[string]string) error
	// Import adds a part of an import of views, as counters.ViewStore does.
	Import(ctx context.Context, p counters.Part) (counters.Imported, error)
}

// ErrChanged is the error of a key that isn't as it was read. Nothing was changed.
var ErrChanged = errors.New("the key has changed since it was read")

// Options configures Run. Caches is required.
type Options struct {
	Apply     bool            // records are written
	Remove    bool            // with Apply: and then their keys of Discours.io are removed
	Caches    *entities.Kinds // the kinds of cached values
	Kinds     []string        // names of the kinds of records; empty: all
	Rate      int             // keys, and fields of hashes, that are read in a second at most; 0: DefaultRate
	Progress  func(seen, total int64)
	Sealer    tokens.Sealer // nil: tokens of providers can't be taken over
	Providers []string      // whose tokens are taken over
}

// Defaults and bounds.
const (
	DefaultRate = 5_000

	burst       = 10_000   // more than the number of keys of one wait
	atOnce      = 250      // records that are read together at most
	atOnceBytes = 16 << 20 // of the records that are read together, at most
	maxRefusals = 10       // of a kind that a report has
	maxTries    = 10       // to take over a record that changes meanwhile
	cacheLife   = time.Hour

	rememberLife  = 30 * 24 * time.Hour // how long after a record's end it is remembered what was taken over for it
	rememberSlack = 24 * time.Hour      // it isn't written again for less
)

// Run takes over the records of a source. The report is also valid with an error: it says what was done until then.
func Run(ctx context.Context, s Source, t Target, o Options) (Report, error) {
	o.Rate = cmp.Or(o.Rate, DefaultRate)
	pace := rate.NewLimiter(rate.Limit(o.Rate), max(o.Rate, burst))
	r := &run{Options: o, source: s, target: t, kinds: kindsOf(o.Caches), found: map[*kind]*Kind{},
		wait: func(ctx context.Context, keys int) error { return pace.WaitN(ctx, min(keys, burst)) }}
	total, err := s.Count(ctx)
	if err != nil {
		return Report{}, err
	}
	seen := int64(0)
	err = s.Pages(ctx, func(ctx context.Context, keys int) error {
		if o.Progress != nil {
			o.Progress(min(seen, total), total)
		}
		seen += int64(keys)
		return r.wait(ctx, keys)
	}, r.page)
	return r.report(), err
}

// run is a Run in progress.
type run struct {
	Options
	source Source
	target Target
	kinds  kinds
	wait   Wait
	found  map[*kind]*Kind
}

// page takes over the records of some keys.
func (r *run) page(ctx context.Context, names []string) error {
	of := map[*kind][]record{}
	for _, name := range names {
		one, ok := r.kinds.parse(name)
		if !ok || len(r.Kinds) > 0 && !slices.Contains(r.Kinds, one.kind.of.Name) {
			continue
		}
		of[one.kind] = append(of[one.kind], one)
	}
	for _, k := range r.kinds {
		if err := r.records(ctx, k, of[k]); err != nil {
			return fmt.Errorf("%s: %w", k.of.Name, err)
		}
	}
	return nil
}

// records takes over records of one kind.
func (r *run) records(ctx context.Context, k *kind, all []record) error {
	switch {
	case len(all) == 0:
	case k.text != nil:
		for some := range slices.Chunk(all, min(atOnce, max(1, atOnceBytes/k.of.MaxBytes))) {
			if err := r.texts(ctx, some); err != nil {
				return err
			}
		}
	case k.hash != nil:
		for _, one := range all {
			if err := r.hash(ctx, one); err != nil {
				return err
			}
		}
	default:
		r.count(k).Keys += int64(len(all))
	}
	return nil
}

// texts takes over strings of one kind, and those that change meanwhile again.
func (r *run) texts(ctx context.Context, all []record) error {
	for range maxTries {
		left, err := r.tryTexts(ctx, all)
		if err != nil || len(left) == 0 {
			return err
		}
		all = left
	}
	for _, one := range all {
		r.count(one.kind).refuse(one.key, errBusy)
	}
	return nil
}

// tryTexts returns the records that have changed meanwhile.
//
// The states are read before the keys of Discours.io, so that another run that adds views in between doesn't make the
// counter of Discours.io look lower than what was taken over from it.
func (r *run) tryTexts(ctx context.Context, all []record) (left []record, err error) {
	refs, keys := make([]Ref, len(all)), make([]string, len(all))
	for i, one := range all {
		refs[i], keys[i] = one.ref, one.key
	}
	states, err := r.target.States(ctx, refs)
	if err != nil {
		return nil, err
	}
	texts, err := r.source.Read(ctx, keys, all[0].kind.of.MaxBytes)
	if err != nil {
		return nil, err
	}
	for i, one := range all {
		if !texts[i].Found {
			continue
		}
		switch err := r.text(ctx, one, texts[i], states[i]); {
		case errors.Is(err, ErrChanged):
			left = append(left, one)
		case err != nil:
			return nil, err
		}
	}
	return left, nil
}

// text takes over one string.
func (r *run) text(ctx context.Context, one record, old Text, was State) error {
	change, err := Change{}, error(errWrongType)
	if !old.WrongType {
		change, err = one.kind.text(r, one, old, was)
	}
	if change.Adopted != "" && r.Apply { // also with a refusal, which is to be the same when repeated
		err = cmp.Or(r.target.Put(ctx, one.ref, was, change), err)
	}
	return r.done(ctx, one, outcome{
		err: err, adopted: change.Writes, was: old.Value, remembered: cmp.Or(change.Adopted, was.Adopted),
	})
}

// hash takes over a hash.
func (r *run) hash(ctx context.Context, one record) error {
	for range maxTries {
		done := one.kind.hash(ctx, r, one)
		if done.gone {
			return nil
		}
		if err := r.done(ctx, one, done); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	r.count(one.kind).refuse(one.key, errBusy)
	return nil
}

// outcome is the result for a key.
type outcome struct {
	gone    bool
	err     error
	adopted bool              // otherwise it was taken over before, or is the same in the service
	was     string            // for Source.Remove
	fields  map[string]string // of a hash, as they were read
	// remembered is the mark to forget when the key of Discours.io has been removed; "": none.
	remembered string
}

// done counts a key, after it was removed if it is to be. Errors: ErrChanged, and nothing was counted.
func (r *run) done(ctx context.Context, one record, o outcome) error {
	k := r.count(one.kind)
	switch {
	case isRefusal(o.err):
		k.refuse(one.key, o.err)
		return nil
	case o.err != nil:
		return o.err
	}
	if r.Apply && r.Remove && !one.kind.shared {
		if err := r.remove(ctx, one, o); err != nil {
			return err
		}
		k.Removed++
	}
	k.Keys++
	if o.adopted {
		k.Adopted++
	} else {
		k.Present++
	}
	return nil
}

// remove removes a key of Discours.io, and then what is remembered of it. If the process dies in between, that remains.
// A hash is read again before, since its removal compares only the number of its fields.
func (r *run) remove(ctx context.Context, one record, o outcome) error {
	if o.fields != nil {
		fields, err := r.fields(ctx, one.key)
		switch {
		case isRefusal(err) || err == nil && !maps.Equal(fields, o.fields):
			return ErrChanged
		case err != nil:
			return err
		}
	}
	ctx = context.WithoutCancel(ctx)
	if err := r.source.Remove(ctx, one.key, o.was); err != nil || o.remembered == "" {
		return err
	}
	return r.target.Forget(ctx, one.ref, o.remembered)
}
