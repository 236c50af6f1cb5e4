package channeltest

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// LookupHarness is a lookup that is stored with the channels of a Harness.
type LookupHarness interface {
	Harness
	// Lookup returns the lookup.
	Lookup() matchmaking.Lookup
}

// RunLookup runs the cases of a matchmaking.Lookup as parallel subtests of t. It calls open once for each case, from
// the goroutine of the case, which uses the harness until it ends.
func RunLookup(t *testing.T, open func(t testing.TB) LookupHarness) {
	t.Helper()
	for _, start := range starts {
		t.Run(start.Name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			s := lookupSubject{testChannel: newTestChannel(t, h, matchmaking.ChannelOf("x")), lookup: h.Lookup()}
			s.StartAt(start.At)
			s.owners()
		})
	}
}

// lookupSubject is the channel of the ticket "x".
type lookupSubject struct {
	*testChannel
	lookup matchmaking.Lookup
}

// owners reserves an ID for one queue after the other. A new ticket gets no assignment of an earlier one with its ID.
func (s *lookupSubject) owners() {
	_, err := s.lookup.Owner(s.Ctx(), "x")
	require.ErrorIs(s.T, err, matchmaking.ErrNoTicket, "the channel doesn't exist")
	s.Subscribe("other")
	s.Publish("before")
	_, err = s.lookup.Owner(s.Ctx(), "x")
	require.ErrorIs(s.T, err, matchmaking.ErrNoTicket, "the channel isn't a ticket's")

	first, started := s.reserve("one", ulid.ULID{})
	require.True(s.T, started)
	require.Equal(s.T, "one", first.Queue)
	has, err := s.lookup.Owner(s.Ctx(), "x")
	require.NoError(s.T, err)
	require.Equal(s.T, first, has)
	s.Reads(matchmaking.Subscriber, 0)
	s.Publish("in-one")
	s.Reads(matchmaking.Subscriber, 0, "in-one")

	for _, other := range []ulid.ULID{{}, ulid.Make()} {
		has, started = s.reserve("two", other)
		require.False(s.T, started, "the channel is in another life than that which is to be replaced")
		require.Equal(s.T, first, has)
		s.Reads(matchmaking.Subscriber, 0, "in-one")
	}
	second, started := s.reserve("two", first.Epoch)
	require.True(s.T, started)
	require.Equal(s.T, "two", second.Queue)
	s.Reads(matchmaking.Subscriber, 0)
	s.Reads("other", 0, "before", "in-one")

	require.ErrorIs(s.T, s.publishIn(s.Ctx(), first.Epoch, "late"), channel.ErrLaterLife)
	s.Reads(matchmaking.Subscriber, 0)
	require.NoError(s.T, s.publishIn(s.Ctx(), second.Epoch, "in-time"))
	later := ulid.MustNew(second.Epoch.Time()+1, rand.Reader)
	require.NoError(s.T, s.publishIn(s.Ctx(), later, "after-a-fail-over"),
		"the storage lost the life that the message is for")
	s.Reads(matchmaking.Subscriber, 0, "in-time", "after-a-fail-over")
}

// reserve reserves the ID for a queue, twice: the repeat finds what the first call did.
func (s *lookupSubject) reserve(queue string, replaces ulid.ULID) (owner matchmaking.Owner, started bool) {
	r := matchmaking.Reservation{
		TicketID: "x", Owner: matchmaking.Owner{Queue: queue, Epoch: ulid.Make()}, Replaces: replaces, TTL: ttl,
	}
	var err error
	for range 2 {
		owner, err = s.lookup.Reserve(s.Ctx(), r)
		require.NoError(s.T, err)
	}
	return owner, owner.Epoch == r.Epoch
}

// publishIn publishes for one life of the channel.
func (s *lookupSubject) publishIn(ctx context.Context, epoch ulid.ULID, id string) error {
	_, err := s.Store.Publish(ctx, channel.PublishRequest{
		Channel: s.Name, Drafts: []channel.Draft{{ID: id, Content: contentOf(id)}}, Policy: s.Policy, Epoch: epoch,
	})
	return err
}
