package channeltest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func closedCases() []testCase {
	return []testCase{
		{Name: "a closed channel refuses messages and answers repeats", Clocks: true, Run: closedRefuses},
		{Name: "a last message closes the channel with it", Clocks: true, Run: closedWithLast},
		{Name: "readers of a closed channel are told its end once they have everything", Clocks: true, Run: closedRead},
		{Name: "a channel that doesn't exist can't be closed", Run: closedNothing},
		{Name: "the end of a channel is an event", Run: closedEvent},
		{Name: "a channel that was deleted is open again", Clocks: true, Run: closedDeleted},
	}
}

// closeChannel closes the channel, and returns its position.
func (s *testChannel) closeChannel() channel.Position {
	s.T.Helper()
	life, err := s.Store.CloseChannel(s.Ctx(), channel.CloseRequest{Channel: s.Name, Policy: s.Policy})
	require.NoError(s.T, err)
	require.True(s.T, life.Closed)
	return life.Position
}

// refusedBy requires that a publish was refused by an error with the channel's position.
func (s *testChannel) refusedBy(want, err error, last int) {
	s.T.Helper()
	require.ErrorIs(s.T, err, want)
	var refused *channel.RefusedError
	require.ErrorAs(s.T, err, &refused)
	require.Equal(s.T, s.At(last), refused.Position.Clock, "the last clock")
}

func closedRefuses(s *testChannel) {
	s.Publish("a", "b")
	require.Equal(s.T, s.At(2), s.closeChannel().Clock)
	require.Equal(s.T, s.At(2), s.closeChannel().Clock, "again")
	_, err := s.TryPublish(s.Ctx(), "c")
	s.refusedBy(channel.ErrClosed, err, 2)
	_, err = s.TryPublish(s.Ctx(), "a", "c")
	s.refusedBy(channel.ErrClosed, err, 2)
	require.Equal(s.T, s.At(1), s.Publish("a")[0].Clock)
	require.True(s.T, s.Batch("a", "b")[1].Duplicate)
	life, err := s.Store.Life(s.Ctx(), s.Name)
	require.NoError(s.T, err)
	require.Equal(s.T, channel.Position{Epoch: s.Position().Epoch, Clock: s.At(2), Closed: true}, life.Position)
}

func closedWithLast(s *testChannel) {
	s.Publish("a")
	last := channel.PublishRequest{Channel: s.Name, Policy: s.Policy, Drafts: draftsOf("b", "c"), Close: true}
	for _, repeated := range []bool{false, true} {
		published, err := s.Store.Publish(s.Ctx(), last)
		require.NoError(s.T, err)
		require.Equal(s.T, s.At(3), published[1].Clock)
		require.Equal(s.T, repeated, published[1].Duplicate)
	}
	_, err := s.TryPublish(s.Ctx(), "d")
	s.refusedBy(channel.ErrClosed, err, 3)
}

func closedRead(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b")
	require.False(s.T, s.Fetch("s").Closed)
	s.closeChannel()
	tail := s.tail(earliest)
	for _, b := range []channel.Batch{s.FetchUpTo("s", 2), s.Fetch("s"), s.FetchWith(tail)} {
		require.True(s.T, b.Closed)
	}
	s.Ack("s", s.Fetch("s"))
	for range 3 { // the first fetch that finds nothing, and those that look before they run the script
		b := s.Fetch("s")
		require.Empty(s.T, b.Messages)
		require.True(s.T, b.Closed)
	}
	for _, wait := range []time.Duration{0, time.Second} {
		r := channel.PollRequest{FetchRequest: s.Request("s", 10)}
		r.Wait = wait
		found := s.Store.Poll(s.Ctx(), []channel.PollRequest{r})[0]
		require.NoError(s.T, found.Err)
		require.True(s.T, found.Closed)
	}
	require.True(s.T, s.Store.Positions(s.Ctx(), []string{s.Name})[0].Closed)
}

func closedNothing(s *testChannel) {
	_, err := s.Store.CloseChannel(s.Ctx(), channel.CloseRequest{Channel: s.Name, Policy: s.Policy})
	require.ErrorIs(s.T, err, channel.ErrNoChannel)
	_, err = s.Store.Life(s.Ctx(), s.Name)
	require.ErrorIs(s.T, err, channel.ErrNoChannel)
}

func closedDeleted(s *testChannel) {
	s.Publish("a")
	at := s.closeChannel()
	require.NoError(s.T, s.Store.Delete(s.Ctx(), channel.DeleteRequest{Channel: s.Name, Epoch: at.Epoch, Policy: s.Policy}))
	require.False(s.T, s.Publish("b")[0].Duplicate)
	s.Publish("c")
}

func closedEvent(s *testChannel) {
	l := s.Listen()
	l.Confirmed()
	s.Publish("a")
	l.Small(s.At(1), "a")
	at := s.closeChannel()
	require.Equal(s.T, channel.Event{Kind: channel.EventClosed, Position: at}, l.Next())
}
