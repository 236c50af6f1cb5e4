package oracle_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/chaos/oracle"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := oracle.NewRequests()
		after := func(d time.Duration) { <-time.After(d) }
		after(time.Second)
		r.Published(time.Millisecond, true)
		after(time.Second)
		r.Published(time.Second, false)
		after(2 * time.Second)
		r.Published(time.Millisecond, true)
		r.Tried("")
		r.Tried("503")
		r.Tried("503")
		v := r.Verdict()
		require.Equal(t, 3*time.Second, v.Gap)
		require.Equal(t, time.Second, v.P99)
		require.Equal(t, 3, v.Tries)
		require.Equal(t, 2, v.Failed)
		require.Equal(t, map[string]int{"503": 2}, v.Reasons)
		require.Equal(t, 3, v.Publishes)
		require.Equal(t, 1, v.PublishesFailed)
		after(9 * time.Second)
		r.Ended()
		require.Equal(t, 9*time.Second, r.Verdict().Gap)
	})
}
