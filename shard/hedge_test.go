package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestP95(t *testing.T) {
	t.Parallel()
	var p p95
	add := func(n int, d time.Duration) {
		for range n {
			p.add(d)
		}
	}
	add(15, time.Millisecond)
	require.Equal(t, time.Minute, p.get(time.Minute)) // too few
	add(1, time.Millisecond)
	require.Equal(t, time.Millisecond, p.get(time.Minute))
	add(128-8, 2*time.Millisecond)
	add(6, time.Second)
	add(2, time.Millisecond)
	require.Equal(t, 2*time.Millisecond, p.get(time.Minute)) // 6 of 128 were slower
	add(16, time.Second)
	require.Equal(t, time.Second, p.get(time.Minute))
	require.Equal(t, time.Millisecond, p.get(time.Millisecond))
	add(128, time.Millisecond) // what is old doesn't count
	require.Equal(t, time.Millisecond, p.get(time.Minute))
}
