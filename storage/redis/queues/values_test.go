package queues

import (
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
	m.CloseSlot(t)
}
