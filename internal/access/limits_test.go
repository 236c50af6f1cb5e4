package access_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access"
)

func TestParseLimits(t *testing.T) {
	t.Parallel()
	const all = "requests=100/s,publishedBytes=1MiB/s,waits=100,tickets=60/m,newChannels=1000/h,newSubscribers=5/d"
	l, err := access.ParseLimits(all)
	require.NoError(t, err)
	require.Equal(t, access.Limits{
		Requests: access.Rate{Count: 100, Per: time.Second}, PublishedBytes: access.Rate{Count: 1 << 20,
			Per: time.Second}, Waits: 100,
		Tickets: access.Rate{Count: 60, Per: time.Minute}, NewChannels: access.Rate{Count: 1000, Per: time.Hour},
		NewSubscribers: access.Rate{Count: 5, Per: 24 * time.Hour},
	}, l)
	for text, written := range map[string]string{
		all: all, "off": "off", "": "off", "waits=1, requests=2048/m": "requests=2KiB/m,waits=1",
		"tickets=1/s": "tickets=1/s",
	} {
		require.NoError(t, l.UnmarshalText([]byte(text)))
		require.Equal(t, written, l.String())
	}
	for _, text := range []string{
		"requests", "requests=", "requests=1", "requests=0/s", "requests=-1/s", "requests=1/w", "requests=1.5/s",
		"requests=1TiB/s",
		"requests=9999999999/s", "requests=2GiB/s", "requests=1/s,requests=1/s", "waits=0", "waits=1/s",
		"waits=1,waits=2", "calls=1/s", "requests=1/s,",
		"off,waits=1",
	} {
		_, err := access.ParseLimits(text)
		require.Error(t, err, text)
	}
}
