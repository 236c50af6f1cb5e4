package delivery_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
)

// service records its last call, and returns err.
type service struct {
	err  error
	call string
}

func (s *service) PublishEach(_ context.Context, requests []channel.PublishRequest) []channel.PublishResult {
	s.call = "publish"
	for _, r := range requests {
		s.call += fmt.Sprintf(" %s/%s %s %s %s", r.Channel, r.Subscriber, r.Epoch, r.Drafts[0].ID, r.Drafts[0].Content)
	}
	return []channel.PublishResult{{}, {Err: s.err}}[:len(requests)]
}

func (s *service) Subscribe(_ context.Context, r channel.SubscribeRequest) (channel.Subscription, error) {
	s.call = fmt.Sprint("subscribe ", r.Channel, " ", r.Subscriber, " ", r.From.Start == channel.StartEarliest)
	return channel.Subscription{}, s.err
}

func (s *service) Unsubscribe(_ context.Context, name, subscriber string, last ulid.ULID) error {
	s.call = fmt.Sprint("unsubscribe ", name, " ", subscriber, " ", last)
	return s.err
}

func TestChannels(t *testing.T) {
	t.Parallel()
	s := &service{}
	c := delivery.New(s)
	assignments := []matchmaking.OutboxEntry{
		{TicketID: "ann", MatchID: "m", Content: []byte(`1`)}, {TicketID: "ben", MatchID: "m", Epoch: ulid.ULID{1},
			Content: []byte(`2`)},
	}
	require.Equal(t, []error{nil, nil}, c.Publish(t.Context(), assignments))
	require.Equal(t,
		"publish ticket.ann/player 00000000000000000000000000 assignment-m 1 ticket.ben/player 01000000000000000000000000 assignment-m 2", s.call)
	require.NoError(t, c.Unsubscribe(t.Context(), "ann", ulid.ULID{1}))
	require.Equal(t, "unsubscribe ticket.ann player 01000000000000000000000000", s.call)
	require.NoError(t, c.Open(t.Context(), "ann"))
	require.Equal(t, "subscribe ticket.ann player true", s.call)

	s.err = fmt.Errorf("publish: %w", channel.ErrLaterLife)
	require.Equal(t, []error{nil, matchmaking.ErrLaterTicket}, c.Publish(t.Context(), assignments))
	s.err = fault.ErrUnavailable
	require.Equal(t, []error{nil, fault.ErrUnavailable}, c.Publish(t.Context(), assignments))
	require.ErrorIs(t, c.Open(t.Context(), "ann"), fault.ErrUnavailable)
}

// TestNames checks that names that matchmaking accepts are valid names of channels and IDs of messages.
func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, channel.NamePattern, matchmaking.NamePattern)
	longest := func(bytes int) string { return strings.Repeat("x", bytes) }
	for _, id := range []string{"a", "A.b:c-d_9", longest(matchmaking.MaxTicketIDBytes),
		longest(matchmaking.MaxTicketIDBytes + 1), "", "-a", "a b", "a\n", "ü"} {
		require.Equal(t, id != "" && id[0] != '-' && channel.CheckMessageID(matchmaking.ChannelOf(id)) == nil,
			matchmaking.CheckTicketID(id) == nil, "%q", id)
		require.True(t, matchmaking.CheckTicketID(id) != nil || channel.CheckChannel(matchmaking.ChannelOf(id)) == nil, id)
		require.Equal(t, channel.CheckMessageID(id) == nil && len(id) <= matchmaking.MaxQueueNameBytes,
			matchmaking.CheckQueueName(id) == nil, "%q", id)
	}
	for _, id := range []string{longest(matchmaking.MaxMatchIDBytes), longest(matchmaking.MaxMatchIDBytes + 1)} {
		require.Equal(t, channel.CheckMessageID(matchmaking.MessagePrefix+id) == nil,
			matchmaking.CheckMatchID(id) == nil)
	}
}
