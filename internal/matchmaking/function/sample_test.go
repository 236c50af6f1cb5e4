package function

import (
	"cmp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTake(t *testing.T) {
	t.Parallel()
	l := newSample(cmp.Less[int])
	for i := range 10 {
		l.Add(9 - i)
	}
	l.Add(3)
	sampleValues := func(limit int) (ids string, all bool) {
		values, all := l.Take(limit)
		l.Used()
		for _, value := range values {
			ids += strconv.Itoa(value)
		}
		return ids, all
	}
	for range 2 {
		values, _ := l.Take(4)
		require.Equal(t, []int{0, 1, 2, 3}, values, "the same until they are used")
	}
	for _, want := range []string{"0123", "4567"} {
		ids, all := sampleValues(4)
		require.Equal(t, want, ids, "those that were not used yet")
		require.False(t, all)
	}
	ids, _ := sampleValues(4)
	require.Contains(t, ids, "89")
	require.Len(t, ids, 4)
	for range 100 {
		l.Add(3)
		ids, _ := sampleValues(9)
		require.Len(t, slices.Compact([]byte(ids)), 9, "none twice")
	}
	pairs := map[string]bool{}
	for range 2000 {
		ids, _ := sampleValues(2)
		require.Less(t, ids[0], ids[1], "in order")
		pairs[ids] = true
	}
	require.Len(t, pairs, 45, "all pairs are taken together")

	for _, limit := range []int{0, 10, 11} {
		ids, all := sampleValues(limit)
		require.Equal(t, "0123456789", ids)
		require.True(t, all)
	}
	for i := range 10 {
		l.Add(i) // each anew
	}
	l.Remove(0)
	l.Remove(77)
	ids, _ = sampleValues(2)
	require.Equal(t, "12", ids)
}
