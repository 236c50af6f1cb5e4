package redistest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestProxyRecordsCommandsAndReplacesReplies(t *testing.T) {
	t.Parallel()
	n := redistest.Standalone(t)
	p := redistest.NewProxy(t, n)
	key := redistest.Prefix(t) + "k"
	client := dial(t, "redis://"+p.Addr())
	set := func() error {
		return client.Do(t.Context(), client.B().Set().Key(key).Value("a\r\nb").Build()).Error()
	}
	before := p.Count()
	p.Fail(func(command []string) string {
		if command[0] == "SET" {
			return "OOM of a test"
		}
		return ""
	})
	require.EqualError(t, set(), "OOM of a test")
	require.Equal(t, [][]string{{"SET", key, "a\r\nb"}}, p.Sent(before))
	got, err := n.Do(t, "GET", key).ToString()
	require.NoError(t, err)
	require.Equal(t, "a\r\nb", got, "the server has run the command")

	p.Fail(nil)
	require.NoError(t, set())
	p.AwaitSent(t, before+1, func(commands [][]string) bool { return len(commands) == 1 })
}
