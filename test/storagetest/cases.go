package storagetest

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// Patience limits waits, so that a broken store fails a test instead of hanging it. A working store never reaches it.
const Patience = 30 * time.Second

// Case is a rule that every store must follow. S is a store, usually with the test and with the calls that cases make.
type Case[S any] struct {
	Name   string // the rule
	Notice string // what a user or an operator would notice if the rule is broken
	Run    func(s S)
}

// Run runs all cases as parallel subtests of t. It calls open once for each case, from the goroutine of the case, which
// uses the store until it ends.
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

// Watch starts to watch a store, and returns when the watch has begun. watch is a method of the store that calls
// changed at its beginning and for each change, until stop.
func Watch(t testing.TB, watch func(changed func()) (stop func())) (notified <-chan struct{}, stop func()) {
	t.Helper()
	changed := make(chan struct{}, 1)
	stop = sync.OnceFunc(watch(func() { pace.Signal(changed) }))
	t.Cleanup(stop)
	Await(t, changed)
	return changed, stop
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

// ErrorOf returns the error of a call that returns a value and an error.
func ErrorOf[T any](_ T, err error) error { return err }

// ErrorOf2 returns the error of a call that returns two values and an error.
func ErrorOf2[T, U any](_ T, _ U, err error) error { return err }

// Ignoring returns err, or nil if it is the expected error.
func Ignoring(err, expected error) error {
	if errors.Is(err, expected) {
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
