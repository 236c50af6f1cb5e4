package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// Reply returns the reply of a script that returns a Lua value.
func Reply(t testing.TB, value string) (redis.Reply, error) {
	t.Helper()
	return redis.NewReply("test", redistest.Standalone(t).Do(t, "EVAL", "return "+value, "0"))
}

// RequireDecoded expects the decoder of each operation to accept the right replies, which are Lua values, and to refuse
// the wrong ones and unknown statuses.
func RequireDecoded(t *testing.T, decoders map[string]func(redis.Reply) error, right, wrong map[string][]string) {
	t.Helper()
	for operation, decode := range decoders {
		require.NotEmpty(t, right[operation], operation)
		for _, value := range right[operation] {
			r, err := Reply(t, value)
			require.NoError(t, err)
			require.NoError(t, decode(r), "%s: %s", operation, value)
		}
		require.NotEmpty(t, wrong[operation], operation)
		for _, value := range append(wrong[operation], `{'WHAT'}`, `{'ok'}`, `{''}`) {
			r, err := Reply(t, value)
			require.NoError(t, err, value)
			RequireInternal(t, decode(r), "%s: %s", operation, value)
		}
	}
}

// RequireRefusals expects the error of each status.
func RequireRefusals(t *testing.T, refusals redis.Refusals, want map[string]error) {
	t.Helper()
	for status, err := range want {
		r, noReply := Reply(t, "{'"+status+"'}")
		require.NoError(t, noReply)
		require.ErrorIs(t, refusals.Error(r), err)
	}
}

// RequireInternal expects the error of a reply that no script returns.
func RequireInternal(t testing.TB, err error, about ...any) {
	t.Helper()
	require.ErrorIs(t, err, redis.ErrReply, about...)
	var f *fault.Error
	require.ErrorAs(t, err, &f, about...)
	require.Equal(t, fault.Internal, f.Kind, about...)
}
