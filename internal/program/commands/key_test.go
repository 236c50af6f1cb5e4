package commands

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
)

func TestParseWhen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 28, 23, 0, 0, 500, time.UTC)
	for text, want := range map[string]string{
		"": "0001-01-01T00:00:00Z", "1d": "2026-03-01T23:00:00Z", "90d": "2026-05-29T23:00:00Z",
		"2h30m":                     "2026-03-01T01:30:00Z",
		"2030-01-31T13:00:00+01:00": "2030-01-31T12:00:00Z",
	} {
		at, err := parseWhen(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, at.Format(time.RFC3339Nano), text)
	}
	for _, text := range []string{"d", "-1d", "1.5d", "99999999d", "90", "tomorrow", "2030-01-31"} {
		_, err := parseWhen(text, now)
		require.Error(t, err, text)
	}
}

func TestWriteKeys(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	key := func(id, grants string, change func(*client.Key)) client.Key {
		k := client.Key{ID: id, NewKey: client.NewKey{Grants: []byte(grants)}, Created: now}
		change(&k)
		return k
	}
	var b strings.Builder
	require.NoError(t, writeKeys(&b, []client.Key{
		key("a", `[{"actions":["subscribe","publish"]},{"actions":["publish"]}]`,
			func(k *client.Key) { k.CreatedBy, k.Description = "admin", "a\n\x1b[31mb" }),
		key("b", `[]`, func(k *client.Key) { k.Configured, k.Expires = true, now }),
		key("c", `[]`, func(k *client.Key) {
			k.Expires, k.Description = now.AddDate(1, 0, 0),
				strings.Repeat("ü", 61)
		}),
	}, now))
	require.Equal(t, `KEY  CREATED     BY             EXPIRES     MAY                DESCRIPTION
a    2026-03-01  admin          never       publish,subscribe  a  [31mb
b    2026-03-01  configuration  expired                        
c    2026-03-01                 2027-03-01                     `+strings.Repeat("ü", 59)+"…\n", b.String())
}
