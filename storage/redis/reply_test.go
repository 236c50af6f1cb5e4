package redis_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
)

func TestMalformedReplies(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`{}`, `{1}`, `{{}}`, `{false}`} {
		_, err := storetest.Reply(t, value)
		require.ErrorIs(t, err, redis.ErrReply, value)
	}
}
