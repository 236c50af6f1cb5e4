package storagetest

import (
	"crypto/rand"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func openLives(s *subject) {
	_, err := s.store.Life(s.ctx(), s.channel)
	require.ErrorIs(s.t, err, channel.ErrNoChannel, "there is no channel")
	s.subscribe("other")
	s.publish("before")
	_, err = s.store.Life(s.ctx(), s.channel)
	require.ErrorIs(s.t, err, channel.ErrNoChannel, "it has no label")

	first, begun := s.open("one", ulid.ULID{})
	require.True(s.t, begun)
	require.Equal(s.t, "one", first.Label)
	has, err := s.store.Life(s.ctx(), s.channel)
	require.NoError(s.t, err)
	require.Equal(s.t, first, has)
	s.reads("player", 0)
	s.publish("in-one")
	s.reads("player", 0, "in-one")

	for _, other := range []ulid.ULID{{}, ulid.Make()} {
		has, begun = s.open("two", other)
		require.False(s.t, begun, "it is in another life than that which is to be replaced")
		require.Equal(s.t, first, has)
		s.reads("player", 0, "in-one")
	}
	second, begun := s.open("two", first.Epoch)
	require.True(s.t, begun)
	require.Equal(s.t, "two", second.Label)
	s.reads("player", 0)
	s.reads("other", 0, "before", "in-one")

	require.ErrorIs(s.t, s.publishIn(first.Epoch, "late"), channel.ErrLaterLife)
	s.reads("player", 0)
	require.NoError(s.t, s.publishIn(second.Epoch, "in-time"))
	later := ulid.MustNew(second.Epoch.Time()+1, rand.Reader)
	require.NoError(s.t, s.publishIn(later, "after-a-fail-over"), "the storage lost the life that the message is for")
	s.reads("player", 0, "in-time", "after-a-fail-over")
}

// open opens the channel for the subscriber "player", twice: the repeat finds what the first call did.
func (s *subject) open(label string, replaces ulid.ULID) (life channel.Life, begun bool) {
	r := channel.OpenRequest{
		Opening: channel.Opening{Channel: s.channel, Subscriber: "player", Label: label, Replaces: replaces},
		Epoch:   ulid.Make(), Policy: s.policy,
	}
	var err error
	for range 2 {
		life, err = s.store.Open(s.ctx(), r)
		require.NoError(s.t, err)
	}
	return life, life.Epoch == r.Epoch
}

// publishIn publishes for one life of the channel.
func (s *subject) publishIn(epoch ulid.ULID, id string) error {
	_, err := s.store.Publish(s.ctx(), channel.PublishRequest{
		Channel: s.channel, Drafts: []channel.Draft{{ID: id, Content: contentOf(id)}}, Policy: s.policy, Epoch: epoch,
	})
	return err
}
