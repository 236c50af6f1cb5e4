package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/clock"
)

// TestRates: a rate is of the time since a channel was listed before, of at least a second and at most an hour.
func TestRates(t *testing.T) {
	t.Parallel()
	r, now := newRates(), time.Now()
	require.Nil(t, r.of("c", clock.Max, now))
	require.Nil(t, r.of("c", clock.Max, now.Add(rateGap/2)))
	require.InDelta(t, 5., *r.of("c", clock.Min+9, now.Add(2*time.Second)), 0, "the clock has wrapped")
	require.InDelta(t, 5., *r.of("c", clock.Min+99, now.Add(2*time.Second)), 0, "too soon: that of before")
	require.InDelta(t, 30., *r.of("c", clock.Min+99, now.Add(5*time.Second)), 0)
	require.Nil(t, r.of("c", 5, now.Add(6*time.Second)), "another life")
	require.Nil(t, r.of("c", 6, now.Add(6*time.Second+2*rateLife)))
}
