package channeltest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func createCases() []testCase {
	return []testCase{
		{Name: "a channel is created once, with its properties", Run: createOnce},
		{Name: "a channel is created with messages and closed", Run: createClosed},
		{Name: "a channel that was deleted is created after its last clock", Clocks: true, Run: createAgain},
		{Name: "a channel of a content type refuses other messages", Run: createType},
		{Name: "reads and writes renew a channel with a TTL of its own", Run: createTTL},
		{Name: "the IDs of a channel with a TTL of its own are of one life", Run: createTTLAgain},
		{Name: "nothing of a channel outlives its end", Run: createEnds},
	}
}

func (s *testChannel) create(p channel.Properties, drafts ...channel.Draft) channel.Created {
	s.T.Helper()
	made, err := s.Store.Create(s.Ctx(), channel.CreateRequest{Channel: s.Name, Policy: s.Policy, Properties: p, Drafts: drafts})
	require.NoError(s.T, err)
	return made
}

func (s *testChannel) life() channel.Life {
	s.T.Helper()
	life, err := s.Store.Life(s.Ctx(), s.Name)
	require.NoError(s.T, err)
	return life
}

func createOnce(s *testChannel) {
	p := channel.Properties{ContentType: "text/plain; charset=utf-8", TTL: 2 * time.Hour}
	made := s.create(p)
	require.False(s.T, made.Existed)
	require.Equal(s.T, channel.Life{Position: channel.Position{Epoch: made.Epoch}, Properties: p}, s.life())
	again := s.create(channel.Properties{ContentType: "image/png"})
	require.True(s.T, again.Existed)
	require.Equal(s.T, made.Life, again.Life)
	s.Delete()
	ordinary := s.create(channel.Properties{})
	require.False(s.T, ordinary.Existed)
	require.Empty(s.T, s.life().Properties)
	s.Publish("a")
	require.EqualValues(s.T, 1, s.create(p).Clock)
}

func createClosed(s *testChannel) {
	made, err := s.Store.Create(s.Ctx(), channel.CreateRequest{Channel: s.Name, Policy: s.Policy, Drafts: draftsOf("a", "b"),
		Close: true})
	require.NoError(s.T, err)
	require.Equal(s.T, channel.Position{Epoch: made.Epoch, Clock: 2, Closed: true}, made.Position)
	require.Equal(s.T, made.Position, s.life().Position)
	_, err = s.TryPublish(s.Ctx(), "c")
	s.refusedBy(channel.ErrClosed, err, 2)
	s.CheckMessages(s.FetchWith(s.tail(earliest)), 0, "a", "b")
}

func createAgain(s *testChannel) {
	s.Publish("a")
	s.Delete()
	made := s.create(channel.Properties{}, draftsOf("b")...)
	require.Equal(s.T, s.At(2), made.Clock)
	require.Equal(s.T, s.At(1), made.First)
	require.Equal(s.T, s.At(1), s.life().First)
}

func createType(s *testChannel) {
	s.create(channel.Properties{ContentType: "text/plain"})
	_, err := s.TryPublish(s.Ctx(), "a")
	s.refusedBy(channel.ErrContentType, err, 0)
	_, err = s.TryPublish(s.Ctx(), "a", "b")
	s.refusedBy(channel.ErrContentType, err, 0)
	other := s.On("json")
	other.create(channel.Properties{ContentType: "Application/JSON; charset=utf-8"})
	other.Publish("a")
}

func createTTL(s *testChannel) {
	s.create(channel.Properties{TTL: time.Minute})
	live := func() time.Duration { return s.Describe().Remaining }
	require.LessOrEqual(s.T, live(), time.Minute)
	s.Publish("a")
	require.Greater(s.T, s.Life(message(1)), time.Minute, "the message has the life of the policy")
	require.LessOrEqual(s.T, live(), time.Minute)
	s.Subscribe("s")
	renewing := map[string]func(){
		"publish": func() { s.Publish("b") },
		"repeat":  func() { s.Publish("c") },
		"tail":    func() { s.FetchWith(s.tail(earliest)) },
		"fetch":   func() { s.Fetch("s") },
		"ack":     func() { s.Ack("s", s.Fetch("s")) },
	}
	for name, renew := range renewing {
		s.SetLife(20*time.Second, channelClock, epoch, subscribers, mark("s"))
		renew()
		require.Greater(s.T, live(), 50*time.Second, name)
		require.LessOrEqual(s.T, live(), 70*time.Second, name)
	}
	waiting := s.tail(earliest)
	waiting.Wait = time.Hour
	s.FetchWith(waiting)
	require.Greater(s.T, live(), time.Hour, "it waits for longer than the channel would live")
	s.SetLife(20*time.Second, channelClock)
	s.life()
	peek := s.tail(earliest)
	peek.Peek = true
	s.FetchWith(peek)
	require.LessOrEqual(s.T, live(), 20*time.Second, "looking at it renews nothing")
}

func createTTLAgain(s *testChannel) {
	s.Policy.MaxMessages = 2
	for range 2 {
		made := s.create(channel.Properties{TTL: time.Minute})
		require.False(s.T, made.Existed)
		for i, id := range []string{"a", "b", "c"} {
			require.Equal(s.T, s.At(i+1), s.Publish(id)[0].Clock)
		}
		again, err := s.TryPublish(s.Ctx(), "a")
		require.NoError(s.T, err)
		require.True(s.T, again[0].Duplicate, "its message was trimmed in this life")
		s.SubscribeFrom("s", earliest)
		receipt := s.ReceiptFor("s", s.FetchUpTo("s", 1))
		s.Publish("d", "e")
		require.NoError(s.T, s.TryAck(receipt), "its message was trimmed")
		s.Expire(channelClock, epoch, subscribers, mark("s"))
	}
	s.Publish("x", "y", "z")
	other, err := s.TryPublish(s.Ctx(), "a")
	require.NoError(s.T, err)
	require.False(s.T, other[0].Duplicate)
}

func createEnds(s *testChannel) {
	ends := time.Now().Add(10 * time.Minute).Truncate(time.Millisecond)
	s.create(channel.Properties{Ends: ends})
	require.True(s.T, ends.Equal(s.life().Ends))
	s.Publish("a")
	s.Subscribe("s")
	s.Ack("s", s.Fetch("s"))
	s.produces(channel.Producer{ID: "p"}, false, "b")
	s.Fetch("s")
	for _, part := range []Part{channelClock, epoch, subscribers, mark("s"), message(1), message(2)} {
		require.LessOrEqual(s.T, s.Life(part), 10*time.Minute, part)
	}
}
