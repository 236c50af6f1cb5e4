package v1

import (
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// FuzzFetchQuery compares the query parser with url.ParseQuery, which accepts the same input with the same values.
func FuzzFetchQuery(f *testing.F) {
	for _, s := range []string{
		"", "max=1", "wait=20s&max=5", "max=1&max=2", "wait=20", "%6dax=5", "max=%35", "max=+5", "&&", "=", "max",
		"wait=%zz", "a=b;max=1",
		"max=99999999999999999999",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var q channel.Query
		if err := fetchQuery(raw, &q); err != nil {
			var refused *wire.InputError
			require.ErrorAs(t, err, &refused)
			require.NotEmpty(t, refused.Slug.Title())
			return
		}
		want, err := url.ParseQuery(raw)
		require.NoError(t, err)
		for name, values := range want {
			require.Len(t, values, 1)
			switch name {
			case "max":
				require.Equal(t, strconv.Itoa(q.Max), strconv.Itoa(mustAtoi(t, values[0])))
			case "wait":
				wait, err := wire.ParseWait(values[0])
				require.NoError(t, err)
				require.Equal(t, wait, q.Wait)
			default:
				require.Fail(t, "an unknown parameter was accepted", name)
			}
		}
	})
}

func mustAtoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}
