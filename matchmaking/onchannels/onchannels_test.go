package onchannels_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/onchannels"
)

// service records its last call, and returns err.
type service struct {
	err  error
	call string
}

func (s *service) PublishIn(_ context.Context, name string, epoch ulid.ULID, drafts []channel.Draft) ([]channel.Published, error) {
	s.call = fmt.Sprintf("publish %s %s %s %s", name, epoch, drafts[0].ID, drafts[0].Content)
	return nil, s.err
}

func (s *service) Unsubscribe(_ context.Context, name, subscriber string) error {
	s.call = "unsubscribe " + name + " " + subscriber
	return s.err
}

func TestChannels(t *testing.T) {
	t.Parallel()
	s := &service{}
	c := onchannels.New(s)
	assignment := &matchmaking.OutboxEntry{TicketID: "ann", MatchID: "m", Content: []byte(`{}`)}
	require.NoError(t, c.Publish(t.Context(), ulid.ULID{}, assignment))
	require.Equal(t, "publish ticket.ann 00000000000000000000000000 assignment-m {}", s.call)
	require.NoError(t, c.Unsubscribe(t.Context(), "ann"))
	require.Equal(t, "unsubscribe ticket.ann player", s.call)

	s.err = fmt.Errorf("publish: %w", channel.ErrLaterLife)
	require.ErrorIs(t, c.Publish(t.Context(), ulid.ULID{}, assignment), matchmaking.ErrLaterTicket)
	s.err = fault.ErrUnavailable
	require.ErrorIs(t, c.Publish(t.Context(), ulid.ULID{}, assignment), fault.ErrUnavailable)
}

// TestNames holds that what matchmaking accepts as names are names of channels and IDs of messages.
func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, channel.NamePattern, matchmaking.NamePattern)
	longest := func(bytes int) string { return strings.Repeat("x", bytes) }
	for _, id := range []string{"a", "A.b:c-d_9", longest(matchmaking.MaxTicketIDBytes), longest(matchmaking.MaxTicketIDBytes + 1), "", "-a", "a b", "a\n", "ü"} {
		require.Equal(t, id != "" && id[0] != '-' && channel.CheckChannel(matchmaking.ChannelOf(id)) == nil, matchmaking.CheckTicketID(id) == nil, "%q", id)
		require.Equal(t, channel.CheckChannel(id) == nil && len(id) <= matchmaking.MaxQueueNameBytes, matchmaking.CheckQueueName(id) == nil, "%q", id)
	}
	for _, id := range []string{longest(matchmaking.MaxMatchIDBytes), longest(matchmaking.MaxMatchIDBytes + 1)} {
		require.Equal(t, channel.CheckMessageID(matchmaking.MessagePrefix+id) == nil, matchmaking.CheckMatchID(id) == nil)
	}
}
