package records_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records/sessions"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/storagetest"
)

// TestInstallationsOnOneRedis: a message ID that a client of one installation chose makes no session of another one,
// and the other one doesn't remove its key.
func TestInstallationsOnOneRedis(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		base := redistest.Prefix(t)
		ours, err := sessions.NewService(sessions.Options{
			Store:  redisrecords.NewSessions(storetest.Connect(t, redis.Options{URL: r.URL, KeyPrefix: base})),
			Legacy: true,
		})
		require.NoError(t, err)
		for _, user := range []string{"mm1", "1"} {
			theirs, err := newService(storetest.Connect(t, redis.Options{URL: r.URL, KeyPrefix: base + user + "-"}),
				channel.Rule{Pattern: ".*", TTL: "1h"})
			require.NoError(t, err)
			payload := fmt.Sprintf(`{"user_id":%q,"username":"c.{x}.mid.f"}`, user)
			forged := "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
			draft := channel.Draft{ID: "f-" + forged, Content: []byte(`"a"`)}
			publish := func() bool {
				done, err := theirs.Publish(t.Context(), channel.PublishRequest{Channel: "x",
					Drafts: []channel.Draft{draft}})
				require.NoError(t, err)
				return done[0].Duplicate
			}
			require.False(t, publish())
			for _, credential := range []string{forged, user + "-c.{x}.mid.f-" + forged} {
				_, err = ours.Check(t.Context(), credential)
				require.ErrorIs(t, err, sessions.ErrNotFound)
			}
			require.True(t, publish(), "the dedup record of another installation was removed")
		}
	})
}
