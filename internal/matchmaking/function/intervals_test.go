package function

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Stab finds what a scan finds, whatever was inserted and removed.
func TestStab(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var tree tree[uint64]
		all := map[uint64][2]float64{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			serial := uint64(rapid.IntRange(1, 30).Draw(t, "serial"))
			if ends, ok := all[serial]; ok {
				tree.Remove(key{Low: ends[0], Serial: serial})
				delete(all, serial)
				continue
			}
			low := float64(rapid.IntRange(0, 20).Draw(t, "low"))
			high := low + float64(rapid.IntRange(0, 9).Draw(t, "width"))
			tree.Insert(key{Low: low, Serial: serial}, high, serial)
			all[serial] = [2]float64{low, high}
		}
		require.Equal(t, len(all) == 0, tree.Empty())
		number := float64(rapid.IntRange(-1, 31).Draw(t, "number"))
		var got, want []uint64
		require.True(t, tree.Stab(number, func(serial uint64) bool {
			got = append(got, serial)
			return true
		}))
		for serial, ends := range all {
			if ends[0] <= number && number <= ends[1] {
				want = append(want, serial)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		require.Equal(t, want, got)
		if len(want) > 0 {
			require.False(t, tree.Stab(number, func(uint64) bool { return false }))
		}
	})
}
