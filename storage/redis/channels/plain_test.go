package channels

import (
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// TestPublishPlainly: services that subscribe to Redis directly receive each new message once, byte for byte, on the
// pub/sub channel with the channel's own name.
func TestPublishPlainly(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		s := open(t, redis.Options{URL: r.URL, KeyPrefix: redistest.Prefix(t)})
		name := "notifications:" + strings.Trim(redistest.Prefix(t), ":{}") // the Redis is shared
		own, release := r.Client.Dedicate()
		defer release()
		got := make(chan string, 100)
		ended := own.SetPubSubHooks(rueidis.PubSubHooks{
			OnMessage:      func(m rueidis.PubSubMessage) { got <- m.Message },
			OnSubscription: func(rueidis.PubSubSubscription) { got <- "subscribed" },
		})
		require.NoError(t, own.Do(t.Context(), own.B().Subscribe().Channel(name).Build()).Error())
		require.Equal(t, "subscribed", <-got)

		publish := func(plain bool, contents ...string) {
			p := publishOf(name, "")
			p.Policy.Plain, p.Drafts = plain, nil
			for i := 0; i < len(contents); i += 2 {
				p.Drafts = append(p.Drafts, channel.Draft{ID: contents[i], Content: []byte(contents[i+1])})
			}
			_, err := s.Publish(t.Context(), p)
			require.NoError(t, err)
		}
		const odd = `{"content": "content\":1", "id":2 }`
		publish(false, "a", `"silent"`)
		publish(true, "a", `"a duplicate"`, "content", odd, "b", "[1]", "b", "[2]")
		publish(true, "end", "0")
		require.Equal(t, []string{odd, "[1]", "0"}, []string{<-got, <-got, <-got})
		require.Empty(t, got)
		select {
		case err := <-ended:
			require.NoError(t, err)
		default:
		}
	})
}

// If Redis's user may not run PUBLISH, nothing is published.
func TestPublishPlainlyWithoutTheRight(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	require.NoError(t, n.Do(t, "ACL", "SETUSER", "mute", "on", ">secret", "allkeys", "+@all", "resetchannels", "&c.*",
		"&server.*").Error())
	s := open(t, redis.Options{URL: n.URL(), Username: "mute", Password: "secret"})
	p := publishOf("ch", "a")
	_, err := s.Publish(t.Context(), p)
	require.NoError(t, err)
	p.Policy.Plain, p.Drafts[0].ID = true, "b"
	_, err = s.Publish(t.Context(), p)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.ErrorContains(t, err, "PUBLISH to ch")
	size, err := n.Do(t, "EXISTS", "c.{ch}.mid.b").AsInt64()
	require.NoError(t, err)
	require.Zero(t, size)
}
