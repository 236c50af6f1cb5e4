package access

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
)

// TestGuessesAreForgotten at a rate. Other addresses aren't affected, except those of one IPv6 subnet.
func TestGuessesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewFailureLimiter()
		add := func(address string, times int) {
			for range times {
				g.Add(address)
			}
		}
		limited := func(address string) time.Duration {
			err := g.Check(address)
			if err == nil {
				return 0
			}
			var e *fault.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, fault.SlugRateLimited, e.Slug)
			return e.RetryAfter
		}
		add("192.0.2.1:1", failureBurst-1)
		require.Zero(t, limited("192.0.2.1:1"))
		add("192.0.2.1:2", 5)
		retry := limited("192.0.2.1:3")
		require.Equal(t, time.Second/failuresPerSecond, retry.Round(time.Millisecond))
		require.NotZero(t, limited("[::ffff:192.0.2.1]:1"))
		require.Zero(t, limited("192.0.2.2:1"))
		time.Sleep(retry + time.Millisecond) //nolint:forbidigo // the time of synctest
		require.Zero(t, limited("192.0.2.1:1"))

		add("[2001:db8::1]:1", failureBurst)
		require.NotZero(t, limited("[2001:db8::ffff:1%eth0]:1"), "the same subnet")
		require.Zero(t, limited("[2001:db8:0:1::1]:1"))
		add("@", failureBurst)
		require.NotZero(t, limited(""))
	})
}

// TestGuessesAreBounded: the addresses that were quiet for longest are forgotten.
func TestGuessesAreBounded(t *testing.T) {
	t.Parallel()
	g := NewFailureLimiter()
	for i := range 2 * maxFailingAddresses {
		g.Add(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
	}
	require.Equal(t, maxFailingAddresses, g.limiters.Len())
}
