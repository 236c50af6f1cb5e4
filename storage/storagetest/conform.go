// Package storagetest is what conformance suites share: cases, each of which gets a store that no other case uses. A
// suite has a table of [Case], and a Run that calls [Run]; the test of a store in Redis calls that for each kind of
// Redis, by package kinds.
package storagetest

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Patience ends a wait for something that never comes. No test is timed by it.
const Patience = 30 * time.Second

// Case is one rule that every store keeps. S is a store, usually with the test and with the calls that cases are made
// of.
type Case[S any] struct {
	Name   string // the rule
	Notice string // what a user or an operator would notice if it is broken
	Run    func(s S)
}

// Run runs all cases as parallel subtests of t. open is called once for each case, from its goroutine; what it returns
// is used until that case ends.
func Run[S any](t *testing.T, cases []Case[S], open func(t testing.TB) S) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("If this rule is broken: %s", c.Notice)
				}
			})
			c.Run(open(t))
		})
	}
}

// Watch begins to watch a store, and returns when the watch has begun. watch is a store's method: it calls changed when
// it has begun, and for each change, until stop.
func Watch(t testing.TB, watch func(changed func()) (stop func())) (notified <-chan struct{}, stop func()) {
	t.Helper()
	signal := make(chan struct{}, 1)
	stop = sync.OnceFunc(watch(func() {
		select {
		case signal <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(stop)
	Await(t, signal)
	return signal, stop
}

// Await waits for a notification.
func Await(t testing.TB, notified <-chan struct{}) {
	t.Helper()
	select {
	case <-notified:
	case <-time.After(Patience):
		require.FailNow(t, "the watcher is not notified")
	}
}

// ErrorOf returns the error of a call that returns a value, too.
func ErrorOf[T any](_ T, err error) error { return err }

// ErrorOf2 returns the error of a call that returns two values, too.
func ErrorOf2[T, U any](_ T, _ U, err error) error { return err }

// Ignoring returns err, unless it is one that may be.
func Ignoring(err, may error) error {
	if errors.Is(err, may) {
		return nil
	}
	return err
}

// Numbered returns n IDs that begin with first.
func Numbered(first string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = first + strconv.Itoa(i)
	}
	return ids
}
