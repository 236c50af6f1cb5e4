package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/api/streams"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
)

// fakeStream is a stream in which nothing arrives, or always something of source 1, or the error of source 0.
type fakeStream struct {
	streams.Stream
	fails   error
	every   time.Duration // between arrivals; 0: nothing arrives
	dropped []int
}

func (f *fakeStream) Next(_ context.Context, wait time.Duration) ([]channel.Arrival, error) {
	if f.fails != nil {
		err := f.fails
		f.fails = nil
		return []channel.Arrival{{Err: err}}, nil
	}
	if f.every == 0 {
		<-time.After(wait)
		return nil, nil
	}
	<-time.After(f.every)
	return []channel.Arrival{{Source: 1, Message: &channel.Message{}}}, nil
}

func (f *fakeStream) Take() ([]channel.Arrival, time.Time, bool) {
	return nil, time.Now().Add(time.Hour), true
}

func (f *fakeStream) Close() {}

func (f *fakeStream) Drop(source int) { f.dropped = append(f.dropped, source) }

// playerStream returns a stream of the player of ann's ticket, and of a chat.
func playerStream(l *lobby, f *fakeStream) *stream {
	l.present = map[string]int{}
	s := &stream{sourceStream: f, channels: channelsOf(l), polls: delivery.Polls{0: "ann"}, done: func() {}}
	s.leave = map[int]func(){0: l.Attend(context.Background(), "ann")}
	s.checkLater()
	return s
}

// A stream looks after a lost assignment once a minute, however long its reader waits, and however busy its other
// sources are.
func TestStreamsLookAtTickets(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{0, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := &lobby{missed: true}
			s := playerStream(l, &fakeStream{every: every})
			for end := time.Now().Add(time.Hour); time.Now().Before(end); {
				arrivals, err := s.Next(t.Context(), time.Hour)
				require.NoError(t, err)
				require.Equal(t, every > 0, len(arrivals) > 0)
			}
			require.InDelta(t, 70, l.looks, 12)
		})
	}
}

// A ticket that doesn't exist any more is a problem once, after the messages of other sources, and ends a stream that
// has nothing else.
func TestStreamsOfTicketsThatAreGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lobby{failure: matchmaking.ErrNoTicket}
		f := &fakeStream{every: 10 * time.Second}
		s := playerStream(l, f)
		var problems []channel.Arrival
		for range 30 {
			arrivals, err := s.Next(t.Context(), time.Hour)
			require.NoError(t, err)
			require.NotNil(t, arrivals[0].Message)
			problems = append(problems, arrivals[1:]...)
		}
		require.Len(t, problems, 1)
		require.ErrorIs(t, problems[0].Err, channel.ErrNoSubscriber)
		require.Equal(t, []int{0}, f.dropped)
		require.Zero(t, l.present["ann"])

		s = playerStream(l, &fakeStream{})
		s.single = true
		_, err := s.Next(t.Context(), time.Hour)
		require.ErrorIs(t, err, channel.ErrStreamEmpty)
		require.ErrorIs(t, err, channel.ErrNoSubscriber)
	})
}

// A player whose source has ended is no longer present, and its ticket isn't looked at.
func TestStreamsForgetPlayers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lobby{}
		s := playerStream(l, &fakeStream{fails: channel.ErrNoSubscriber})
		require.Equal(t, 1, l.present["ann"])
		arrivals, err := s.Next(t.Context(), time.Hour)
		require.NoError(t, err)
		require.ErrorIs(t, arrivals[0].Err, channel.ErrNoSubscriber)
		require.Zero(t, l.present["ann"])
		arrivals, err = s.Next(t.Context(), time.Hour)
		require.NoError(t, err)
		require.Empty(t, arrivals)
		require.Zero(t, l.looks)
		s.Close()
		require.Zero(t, l.present["ann"], "it isn't ended twice")
		playerStream(l, &fakeStream{}).Close()
		require.Zero(t, l.present["ann"])
	})
}

// A stream that has lost a source waits as before.
func TestStreamWaitsAfterADrop(t *testing.T) {
	t.Parallel()
	s := playerStream(&lobby{}, &fakeStream{})
	s.drop(0)
	arrivals, _, done := s.Take()
	require.Empty(t, arrivals)
	require.True(t, done)
}
