package channels

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// A publish that must be on a replica is answered only when it is, and its repeat waits too.
func TestPublishWaitsForReplicas(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, primary)
	s := open(t, redis.Options{URL: primary.URL(), Timeout: time.Minute})
	r := channel.PublishRequest{
		Channel: "ch", Drafts: []channel.Draft{{ID: "m1", Content: []byte(`1`)}},
		Policy: channel.Policy{TTL: time.Hour, MaxMessageBytes: 100, Replicas: 1},
	}

	published, err := s.Publish(t.Context(), r)
	require.NoError(t, err)
	require.False(t, published[0].Duplicate)
	require.EqualValues(t, 1, published[0].Clock)
	require.Equal(t, "1", valueOf(t, replica, "c.{ch}.clock"), "the replica has it when the publish is answered")

	making := r
	making.Channel, making.Subscriber = "new", reader
	for range 2 { // new, and then a duplicate
		require.NoError(t, s.PublishEach(t.Context(), []channel.PublishRequest{making})[0].Err)
		require.Equal(t, "1", valueOf(t, replica, "c.{new}.clock"))
		require.Equal(t, "0", valueOf(t, replica, "c.{new}.r.reader"), "the message is new to the subscriber")
	}

	replica.Pause(t)
	storetest.RequireNotReplicated(t, func(ctx context.Context) error {
		return s.PublishEach(ctx,
			[]channel.PublishRequest{{Channel: "other", Drafts: r.Drafts, Policy: r.Policy}})[0].Err
	})
	for _, id := range []string{"m2", "m2"} { // new, and then a duplicate
		r.Drafts[0].ID = id
		storetest.RequireNotReplicated(t,
			func(ctx context.Context) error { return storagetest.ErrorOf(s.Publish(ctx, r)) })
	}

	replica.Resume(t)
	published, err = s.Publish(t.Context(), r)
	require.NoError(t, err)
	require.True(t, published[0].Duplicate)
	require.EqualValues(t, 2, published[0].Clock)
	require.Equal(t, "2", valueOf(t, replica, "c.{ch}.mid.m2"))
}

// In a cluster the connection that waits is one to the channel's primary.
func TestPublishWaitsForReplicasInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	s := open(t, redis.Options{URL: c.Addrs()[0], KeyPrefix: redistest.Prefix(t), Timeout: time.Minute})
	for _, name := range []string{"a", "b", "c", "d"} {
		r := channel.PublishRequest{
			Channel: name, Drafts: []channel.Draft{{ID: "m1", Content: []byte(`1`)}},
			Policy: channel.Policy{TTL: time.Hour, MaxMessageBytes: 100, Replicas: 1},
		}
		published, err := s.Publish(t.Context(), r)
		require.NoError(t, err)
		require.EqualValues(t, 1, published[0].Clock)
		r.Policy.Replicas = 5
		r.Drafts[0].ID = "m2"
		storetest.RequireNotReplicated(t,
			func(ctx context.Context) error { return storagetest.ErrorOf(s.Publish(ctx, r)) })
	}
}

func valueOf(t *testing.T, n *redistest.Node, key string) string {
	t.Helper()
	value, err := n.Do(t, "GET", key).ToString()
	require.NoError(t, err)
	return value
}
