package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// One long call, followed by many short ones: the memory for them is bounded.
func TestEndedFlightsAreForgotten(t *testing.T) {
	t.Parallel()
	c, cancelled := newFlights(&fleet{o: ClientOptions{MaxLate: 3}}), 0
	late := func() *flight {
		f := &flight{all: c, cancel: func() { cancelled++ }}
		c.returned(f, 1)
		return f
	}
	late()
	for range 100 {
		c.landed(late(), 0)
		require.LessOrEqual(t, len(c.late), 2*3)
	}
	require.Zero(t, cancelled)
	for range 3 {
		late()
	}
	require.Equal(t, 1, cancelled, "the oldest")
}
