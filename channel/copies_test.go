package channel

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
)

// announcer records the channels that are announced.
type announcer struct {
	steps  *[]string
	copied bool
	err    error
}

func (a announcer) Announce(_ context.Context, channel string) (bool, error) {
	*a.steps = append(*a.steps, "announce "+channel)
	return a.copied, a.err
}

// TestMessagesThatAreCopied: a message is announced, and its reader exists, before it is published.
func TestMessagesThatAreCopied(t *testing.T) {
	t.Parallel()
	failed := errors.New("it failed")
	for name, tt := range map[string]struct {
		channel   string
		announcer announcer
		subscribe error
		steps     []string
		err       error
	}{
		"copied": {"copied", announcer{copied: true}, nil, []string{"announce copied", "subscribe copies",
			"publish"}, nil},
		"has no followers":   {"copied", announcer{}, nil, []string{"announce copied", "publish"}, nil},
		"isn't copied":       {"other", announcer{copied: true}, nil, []string{"publish"}, nil},
		"can't be announced": {"copied", announcer{err: failed}, nil, []string{"announce copied"}, failed},
		"can't be subscribed": {"copied", announcer{copied: true}, failed,
			[]string{"announce copied", "subscribe copies"}, failed},
	} {
		var steps []string
		store := &stubStore{
			publish: func(PublishRequest) ([]Published, error) {
				steps = append(steps, "publish")
				return []Published{{ID: "a", Clock: 1}}, nil
			},
			subscribe: func(r SubscribeRequest) (Subscription, error) {
				steps = append(steps, "subscribe "+r.Subscriber)
				return Subscription{Begun: true}, tt.subscribe
			},
		}
		s := serviceOn(t, store, DefaultLimits(), Rule{Pattern: "copied", Copies: true})
		tt.announcer.steps = &steps
		s.copies = tt.announcer
		published, err := s.Publish(t.Context(), PublishRequest{
			Channel: tt.channel, Drafts: []Draft{{ID: "a", Content: []byte("1")}},
		})
		require.ErrorIs(t, err, tt.err, name)
		require.Equal(t, tt.steps, steps, name)
		if name == "copied" {
			require.True(t, published[0].Begun, "the channel counts as a new one")
		}
	}
}

// TestTheReaderOfCopies: clients can't read, acknowledge or remove as the subscriber that copies.
func TestTheReaderOfCopies(t *testing.T) {
	t.Parallel()
	s, ctx := serviceOn(t, newWorld(in1(0)), DefaultLimits(), Rule{Pattern: "copied", Copies: true}), t.Context()
	reserved := &fault.Error{Slug: fault.SlugReserved}
	from := Query{Channel: "copied", Subscriber: CopiesSubscriber}
	_, err := s.Subscribe(ctx, SubscribeRequest{Channel: from.Channel, Subscriber: from.Subscriber})
	require.ErrorIs(t, err, reserved)
	_, err = s.Fetch(ctx, from)
	require.ErrorIs(t, err, reserved)
	_, err = s.Next(ctx, from, "")
	require.ErrorIs(t, err, reserved)
	require.ErrorIs(t, s.Ack(ctx, from.Channel, from.Subscriber, "x"), reserved)
	require.ErrorIs(t, s.Unsubscribe(ctx, from.Channel, from.Subscriber, AnyLife), reserved)
	from.Copies, from.Wait = true, time.Nanosecond
	_, err = s.Next(ctx, from, "")
	require.NotErrorIs(t, err, reserved)
	_, err = s.Subscribe(ctx, SubscribeRequest{Channel: "other", Subscriber: CopiesSubscriber})
	require.NoError(t, err, "elsewhere it is a name like any other")
}
