package queues

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
)

// While a slot move is incomplete, its values are read from both nodes.
func TestValuesOfAMovingSlot(t *testing.T) {
	t.Parallel()
	c := storetest.StartTwoNodes(t)
	r := valueReader{Conn: c.Connect(t, redis.Options{Timeout: time.Minute})}
	keys := []string{"{q}a", "{q}none", "{q}b"}
	for _, key := range []string{keys[0], keys[2]} {
		require.NoError(t, c.Direct.Do(t.Context(), c.Direct.B().Set().Key(key).Value(key).Build()).Error())
	}
	m := c.OpenMove(t, "q")
	m.MoveKey(t, keys[2])
	values, err := r.Primary(t.Context(), keys)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte(keys[0]), nil, []byte(keys[2])}, values)
	values, err = r.First(t.Context(), keys)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte(keys[0]), nil, []byte(keys[2])}, values)
	m.CloseSlot(t)
}

// One call reads many small values, and of large ones as many as have 1 MiB, in steps of 16.
func TestFirstValues(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		small, large := make([]string, 1200), make([]string, 100)
		for i := range small {
			small[i] = h.k().ticket(fmt.Sprint("small", i))
		}
		for i := range large {
			large[i] = h.k().ticket(fmt.Sprint("large", i))
			require.NoError(t, h.direct.Do(t.Context(),
				h.direct.B().Set().Key(large[i]).Value(strings.Repeat("x", firstBytes/20)).Build()).Error())
		}
		values, err := h.store.values.First(t.Context(), small)
		require.NoError(t, err)
		require.Len(t, values, firstKeys)
		values, err = h.store.values.First(t.Context(), large)
		require.NoError(t, err)
		require.Len(t, values, 32)
	})
}
