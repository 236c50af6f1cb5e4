package function

import (
	"math/rand/v2"
	"slices"

	"github.com/tidwall/btree"
)

// sample holds ordered values, of which Take returns some. One goroutine uses it at a time.
type sample[T comparable] struct {
	less  func(a, b T) bool
	all   *btree.BTreeG[T]
	fresh *btree.BTreeG[T] // those that were never used
	taken []T              // values that the last Take returned
}

// newSample returns an empty sample.
func newSample[T comparable](less func(a, b T) bool) *sample[T] {
	tree := func() *btree.BTreeG[T] {
		return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
	}
	return &sample[T]{less: less, all: tree(), fresh: tree()}
}

// Add adds a value.
func (l *sample[T]) Add(t T) {
	l.all.Set(t)
	l.fresh.Set(t)
}

// Remove removes a value, if it exists.
func (l *sample[T]) Remove(t T) {
	l.all.Delete(t)
	l.fresh.Delete(t)
}

// Take returns values in order, as many as limit at most, and reports whether these are all; a limit of 0 is none.
// Unused values come first, so that none waits forever; the others are chosen at random, so that any two of them are
// eventually returned together.
func (l *sample[T]) Take(limit int) (values []T, all bool) {
	if limit == 0 || l.all.Len() <= limit {
		l.taken = l.fresh.Items()
		return l.all.Items(), true
	}
	l.taken = nil
	taken := make(map[T]bool, limit)
	l.fresh.Scan(func(t T) bool {
		taken[t] = true
		values, l.taken = append(values, t), append(l.taken, t)
		return len(values) < limit
	})
	for _, i := range rand.Perm(l.all.Len()) { //nolint:gosec // no secret hangs on it
		if len(values) == limit {
			break
		}
		if t, _ := l.all.GetAt(i); !taken[t] {
			values = append(values, t)
		}
	}
	slices.SortFunc(values, func(a, b T) int {
		if l.less(a, b) {
			return -1
		}
		return 1
	})
	return values, false
}

// Used marks the values of the last Take as used.
func (l *sample[T]) Used() {
	for _, t := range l.taken {
		l.fresh.Delete(t)
	}
	l.taken = nil
}
