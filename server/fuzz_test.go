package server_test

import (
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/wire"
)

func seedQueries(f *testing.F) {
	f.Helper()
	for _, s := range []string{
		"", "max=1", "wait=20s&max=5", "max=1&max=2", "wait=20", "%6dax=5", "max=%35", "max=+5", "&&", "=", "max", "wait=%zz", "timeout=1h&max=9",
		"timeout=-1s", "a=b;max=1", "max=99999999999999999999",
	} {
		f.Add(s)
	}
}

// FuzzFetchQuery holds the query parser of /v1 against url.ParseQuery: what it takes, that takes too and alike.
func FuzzFetchQuery(f *testing.F) {
	seedQueries(f)
	f.Fuzz(func(t *testing.T, raw string) {
		var q channel.Query
		if err := server.FetchQuery(raw, &q); err != nil {
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
				require.Fail(t, "a parameter that isn't known was taken", name)
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

// FuzzOldQuery shows that what the predecessor's query gives is always within the limits.
func FuzzOldQuery(f *testing.F) {
	seedQueries(f)
	limits := channel.DefaultLimits()
	f.Fuzz(func(t *testing.T, raw string) {
		var q channel.Query
		if err := server.OldQuery(raw, limits, &q); err != nil {
			return
		}
		require.GreaterOrEqual(t, q.Max, 0)
		require.LessOrEqual(t, q.Max, limits.MaxMax)
		require.GreaterOrEqual(t, int64(q.Wait), int64(0))
		require.LessOrEqual(t, q.Wait, limits.MaxWait)
	})
}

// FuzzRequestID shows that what is taken over can't disturb a header or a log line.
func FuzzRequestID(f *testing.F) {
	for _, s := range []string{"", "a", "a b", "a\nb", "é", "\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if server.SaneRequestID(id) {
			require.Regexp(t, `^[!-~]{1,128}$`, id)
		}
	})
}
