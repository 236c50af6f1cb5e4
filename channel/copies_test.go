package channel

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// together waits in each announcement until n callers have announced.
type together struct{ arrived *sync.WaitGroup }

func (a together) Announce(context.Context, string) (bool, error) {
	a.arrived.Done()
	a.arrived.Wait()
	return true, nil
}

// TestCopiesOfSeveralChannelsAreAnnouncedTogether: no announcement of a PublishEach waits for another one, and all are
// made before anything is published.
func TestCopiesOfSeveralChannelsAreAnnouncedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const channels = 20
		var subscribed atomic.Int64
		s := serviceOn(t, &stubStore{
			publish: func(PublishRequest) ([]Published, error) {
				require.EqualValues(t, channels, subscribed.Load())
				return []Published{{ID: "a", Clock: 1}}, nil
			},
			subscribe: func(SubscribeRequest) (Subscription, error) {
				subscribed.Add(1)
				return Subscription{Begun: true}, nil
			},
		}, DefaultLimits(), Rule{Pattern: "copied.*", Copies: true})
		arrived := new(sync.WaitGroup)
		arrived.Add(channels)
		s.copies = together{arrived}
		requests := []PublishRequest{{Channel: "other", Drafts: []Draft{{ID: "a", Content: []byte("1")}}}}
		for i := range channels {
			requests = append(requests, PublishRequest{Channel: "copied" + strconv.Itoa(i), Drafts: requests[0].Drafts})
		}
		for i, result := range s.PublishEach(t.Context(), requests) {
			require.NoError(t, result.Err)
			require.Equal(t, i > 0, result.Published[0].Begun)
		}
	})
}
