// Package keyspace counts the keys of a Redis by their kind: their number, memory, expiry and problems.
//
// [Run] walks over all keys once, at a limited rate, and needs memory for the kinds only, not for the keys.
package keyspace

import (
	"context"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// Key is the data that a walk reads about a key.
type Key struct {
	Name  string        // without the prefix
	Type  records.Type  // or another one that Redis has
	TTL   time.Duration // time to live; negative: the key is permanent
	Bytes int64         // of memory; 0: not measured
}

// Source walks over the keys of a Redis. A key that exists throughout is seen at least once.
type Source interface {
	// Count returns the approximate number of keys, those of other prefixes included.
	Count(ctx context.Context) (int64, error)
	Walk(ctx context.Context, v Visitor) error
}

// Visitor controls a walk and receives its results.
type Visitor interface {
	// Wait waits until this many more keys may be examined.
	Wait(ctx context.Context, keys int) error
	// Wants reports whether a key is of interest, and whether its memory is.
	Wants(name string) (look, measure bool)
	// Visit gets the keys of interest, and how many were looked at for them.
	Visit(keys []Key, seen int)
}

// Options configures a survey.
type Options struct {
	Table *records.Table // needed
	Kinds []string       // names of kinds; empty: all
	Rate  int            // maximum number of keys to examine per second; 0: DefaultRate
	// the memory of one key in so many is measured, once that of 1,000 of its kind has been; 0: DefaultSample
	Sample   int
	Largest  int // how many keys of each kind are named as its largest; 0: none
	Progress func(seen, total int64)
}

// Defaults and bounds of Options.
const (
	DefaultRate   = 20_000
	DefaultSample = 20
	MaxLargest    = 100

	measured = 1000 // keys of each kind are measured in any case
)

// Run surveys the keys of a source.
func Run(ctx context.Context, s Source, o Options) (Report, error) {
	if o.Rate == 0 {
		o.Rate = DefaultRate
	}
	if o.Sample == 0 {
		o.Sample = DefaultSample
	}
	o.Largest = min(o.Largest, MaxLargest)
	total, err := s.Count(ctx)
	if err != nil {
		return Report{}, err
	}
	v := &visitor{options: o, total: total, kinds: make(map[string]*Kind), pace: rate.NewLimiter(rate.Limit(o.Rate),
		max(o.Rate, burst))}
	v.progress(0)
	if err := s.Walk(ctx, v); err != nil {
		return Report{}, err
	}
	return v.report(), nil
}

// burst is more than the number of keys of one call of Wait.
const burst = 10_000

// visitor is a survey in progress.
type visitor struct {
	options Options
	pace    *rate.Limiter
	kinds   map[string]*Kind
	seen    int64
	total   int64
}

func (v *visitor) Wait(ctx context.Context, keys int) error {
	return v.pace.WaitN(ctx, min(keys, burst))
}

func (v *visitor) progress(more int) {
	v.seen += int64(more)
	if v.options.Progress != nil {
		v.options.Progress(min(v.seen, v.total), v.total)
	}
}

func (v *visitor) Wants(name string) (look, measure bool) {
	k := v.kind(name)
	if k == nil {
		return false, false
	}
	k.found++
	return true, k.found <= measured || k.found%int64(v.options.Sample) == 0
}

// kind returns the kind of a key, or nil if it isn't of interest.
func (v *visitor) kind(name string) *Kind {
	of := v.options.Table.Of(name)
	title := records.Unknown
	if of != nil {
		title = of.Name
	}
	k := v.kinds[title]
	if k == nil {
		k = &Kind{Name: title, kind: of, ignored: !v.included(title)}
		v.kinds[title] = k
	}
	if k.ignored {
		return nil
	}
	return k
}

func (v *visitor) included(title string) bool {
	return len(v.options.Kinds) == 0 || slices.Contains(v.options.Kinds, title)
}

func (v *visitor) Visit(keys []Key, seen int) {
	for _, key := range keys {
		if k := v.kind(key.Name); k != nil {
			k.add(key, v.options.Largest)
		}
	}
	v.progress(seen)
}
