// Package lives has the cases of how long the parts of a channel live. Start from [Cases].
package lives

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/storage/storagetest/channeltest/internal/subject"
)

// Cases returns the cases.
func Cases() []subject.Case {
	return []subject.Case{
		{Name: "everything has a life", Run: lifeOfAll},
		{Name: "publish renews the channel but no mark and no other message", Run: lifePublish},
		{Name: "subscribe, fetch, ack and next renew the channel and the mark but no message", Run: lifeRenewed},
		{Name: "an idle poll writes nothing while 9/10 of the life is left", Run: lifeKept},
		{Name: "an ack renews the whole life of the mark", Run: lifeAcked},
		{Name: "a fetch that returns messages renews the whole life of the mark", Run: lifeAnswered},
		{Name: "a fetch before a wait adds the wait to the life of the mark", Run: lifeWaited},
		{Name: "a message's life doesn't depend on the marks", Run: lifeOfLaterMessage},
		{Name: "a shorter TTL ends nothing early", Run: lifeShortened},
		{Name: "a longer TTL holds from the next use", Run: lifeProlonged},
		{Name: "describe and positions renew nothing", Run: lifeDescribed},
	}
}

// ownParts are the parts that a call of the subscriber "s" renews.
var ownParts = []subject.Part{subject.Clock, subject.Epoch, subject.Subscribers, subject.Mark("s")}

func lifeOfAll(s *subject.Channel) {
	s.Publish("a")
	s.Renewed(subject.Clock, subject.Epoch, subject.Message(1), subject.Record("a"))
	s.Subscribe("s")
	s.Renewed(subject.Clock, subject.Epoch, subject.Mark("s"), subject.Subscribers)
	s.Batch("b", "c")
	s.Renewed(subject.Clock, subject.Epoch, subject.Message(2), subject.Record("b"), subject.Message(3), subject.Record("c"))
	s.Outlives(subject.Mark("s"), subject.Message(1), subject.Message(3), subject.Record("c"), subject.Subscribers)

	quiet := s.On("quiet")
	quiet.Subscribe("s")
	quiet.Renewed(subject.Clock, subject.Epoch, subject.Mark("s"), subject.Subscribers)
}

func lifePublish(s *subject.Channel) {
	s.Subscribe("s")
	s.Publish("a")
	s.SetLife(subject.TTL/2, subject.Clock, subject.Epoch, subject.Subscribers, subject.Mark("s"), subject.Message(1), subject.Record("a"))
	s.Publish("b")
	s.Renewed(subject.Clock, subject.Epoch, subject.Subscribers, subject.Message(2), subject.Record("b"))
	s.NotRenewed(subject.TTL/2, subject.Mark("s"), subject.Message(1), subject.Record("a"))
	s.SetLife(subject.TTL/2, subject.Clock, subject.Epoch, subject.Subscribers)
	s.Batch("b", "c")
	s.Renewed(subject.Clock, subject.Epoch, subject.Subscribers, subject.Message(3), subject.Record("c"))
}

// uses returns the calls that renew the life of the subscriber "s". The receipt is of what is unread now.
func uses(s *subject.Channel) map[string]func() {
	old := s.Fetch("s")
	return map[string]func(){
		"subscribe": func() {
			_, err := s.TrySubscribe("s", channel.From{})
			require.NoError(s.T, err)
		},
		"fetch": func() { s.Fetch("s") },
		"ack":   func() { s.Ack("s", old) },
		"next":  func() { s.Next("s", old, 10) },
	}
}

func lifeRenewed(s *subject.Channel) {
	s.Publish("old")
	s.Subscribe("s")
	s.Subscribe("other")
	others := []subject.Part{subject.Mark("other"), subject.Message(1), subject.Record("old")}
	for name, use := range uses(s) {
		for _, left := range []time.Duration{subject.TTL * 85 / 100, subject.TTL / 2, time.Minute} {
			s.T.Logf("%s with %s left", name, left)
			s.SetLife(left, slices.Concat(ownParts, others)...)
			use()
			s.Renewed(ownParts...)
			s.NotRenewed(left, others...)
			s.Outlives(subject.Mark("s"))
		}
		s.SetLife(subject.TTL*95/100, subject.Clock, subject.Epoch) // the mark is due, the channel isn't
		s.SetLife(subject.TTL/2, subject.Mark("s"))
		use()
		s.Renewed(subject.Mark("s"))
		s.Outlives(subject.Mark("s"))
	}
	// An ack that moves the mark, and one within next.
	s.Publish("a", "b")
	b := s.FetchUpTo("s", 1)
	s.SetLife(subject.TTL/2, ownParts...)
	s.Ack("s", b)
	s.Renewed(ownParts...)
	b = s.FetchUpTo("s", 1)
	s.SetLife(subject.TTL/2, ownParts...)
	s.Next("s", b, 1)
	s.Renewed(ownParts...)
}

// mostLeft is a rest of a life that an idle poll doesn't renew.
const mostLeft = subject.TTL * 93 / 100

func lifeKept(s *subject.Channel) {
	s.Subscribe("s")
	s.SetLife(mostLeft, ownParts...)
	b := s.Fetch("s")
	s.NotRenewed(mostLeft, ownParts...)
	s.Next("s", b, 1)
	s.NotRenewed(mostLeft, ownParts...)
}

func lifeAcked(s *subject.Channel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	first := s.FetchUpTo("s", 1)
	second := s.FetchUpTo("s", 2)
	for _, use := range []func(){
		func() { s.Ack("s", first) },
		func() { s.Ack("s", first) }, // a repeat
		func() { s.Next("s", second, 1) },
		func() { s.Next("s", second, 1) }, // a repeat that returns a message
		func() { s.Ack("s", s.Fetch("s")) },
	} {
		s.SetLife(mostLeft, ownParts...)
		use()
		s.Renewed(ownParts...)
		s.Outlives(subject.Mark("s"))
	}
}

func lifeAnswered(s *subject.Channel) {
	s.Subscribe("s")
	s.Publish("a", "b")
	messages := []subject.Part{subject.Message(1), subject.Record("a")}
	s.SetLife(mostLeft, slices.Concat(ownParts, messages)...)
	s.Reads("s", 0, "a", "b")
	s.Renewed(ownParts...)
	s.NotRenewed(mostLeft, messages...)
	s.Outlives(subject.Mark("s"))
	s.ExpireMessages(1, 2)
	s.SetLife(mostLeft, ownParts...)
	s.Reads("s", 2)
	s.Renewed(subject.Mark("s"))
}

func lifeWaited(s *subject.Channel) {
	s.Subscribe("s")
	r := s.Request("s", 1)
	r.Wait = 10 * time.Minute
	least := subject.TTL + r.Wait
	waits := func() {
		s.T.Helper()
		for _, p := range ownParts {
			require.Greater(s.T, s.Life(p), least, "the life of %s covers the wait and the TTL", p)
			require.LessOrEqual(s.T, s.Life(p), least+subject.TTL/9, "the life of %s", p)
		}
		s.Outlives(subject.Mark("s"))
	}
	s.FetchWith(r)
	waits()
	s.SetLife(least+subject.TTL/50, ownParts...)
	s.FetchWith(r)
	for _, p := range ownParts {
		require.LessOrEqual(s.T, s.Life(p), least+subject.TTL/50, "the next poll writes nothing")
	}
	s.SetLife(least*98/100, ownParts...)
	s.FetchWith(r)
	waits()

	s.Publish("a")
	b := s.FetchWith(r)
	s.SetLife(subject.TTL/2, ownParts...)
	_, err := s.Store.Next(s.Ctx(), channel.AckRequest{Receipt: s.ReceiptFor("s", b), Policy: s.Policy}, r)
	require.NoError(s.T, err)
	require.InDelta(s.T, least, s.Life(subject.Mark("s")), float64(subject.TTL/100), "after next the mark's life covers the wait and the TTL")
	s.Outlives(subject.Mark("s"))
}

func lifeOfLaterMessage(s *subject.Channel) {
	s.Subscribe("s")
	s.Publish("a")
	r := s.Request("s", 1)
	r.Wait = subject.TTL / 2
	b := s.FetchWith(r)
	s.Ack("s", b)
	s.FetchWith(r)
	s.Publish("b")
	s.Renewed(subject.Message(2), subject.Record("b"))
	s.Outlives(subject.Mark("s"), subject.Message(2))
	s.Policy.TTL = time.Minute
	s.Publish("c")
	require.GreaterOrEqual(s.T, s.Life(subject.Message(3)), s.Life(subject.Message(2)), "no message ends before an earlier one")
}

func lifeShortened(s *subject.Channel) {
	s.Subscribe("s")
	s.Publish("a")
	s.Policy.TTL = time.Minute
	alive := []subject.Part{subject.Message(1), subject.Record("a")}
	check := func() {
		s.T.Helper()
		s.Outlives(alive...)
		require.Greater(s.T, s.Life(subject.Clock), subject.TTL/2, "the channel lives as long as its messages")
	}
	s.Publish("b")
	check()
	for name, use := range uses(s) {
		s.T.Log(name)
		use()
		check()
		s.SetLife(10*time.Second, subject.Mark("s"))
		use()
		s.Outlives(subject.Mark("s"))
		require.Greater(s.T, s.Life(subject.Mark("s")), 50*time.Second, "the mark is renewed by the shorter TTL")
		require.Greater(s.T, s.Life(subject.Clock), subject.TTL/2, "the channel isn't cut when a mark is renewed")
		require.Greater(s.T, s.Life(subject.Epoch), subject.TTL/2, "the epoch isn't cut when a mark is renewed")
	}
	s.Subscribe("late")
	check()
	s.Outlives(subject.Message(2), subject.Mark("late"))
	s.Outlives(append(alive, subject.Message(2), subject.Mark("late"))...)
}

func lifeProlonged(s *subject.Channel) {
	s.Subscribe("s")
	s.Subscribe("other")
	s.Publish("a")
	for name, use := range uses(s) {
		s.T.Log(name)
		s.Policy.TTL *= 2
		use()
		s.Renewed(subject.Clock, subject.Epoch, subject.Mark("s"))
		s.Outlives(subject.Mark("s"), subject.Mark("other"), subject.Message(1))
	}
	s.Policy.TTL *= 2
	s.Publish("b")
	s.Renewed(subject.Clock, subject.Epoch, subject.Message(2), subject.Record("b"))
	s.Policy.TTL *= 2
	s.Subscribe("late")
	s.Renewed(subject.Clock, subject.Epoch, subject.Mark("late"))
	s.Outlives(subject.Mark("late"), subject.Mark("s"), subject.Message(2))
}

func lifeDescribed(s *subject.Channel) {
	s.Subscribe("s")
	s.Publish("a")
	parts := slices.Concat(ownParts, []subject.Part{subject.Message(1), subject.Record("a")})
	s.SetLife(subject.TTL/2, parts...)
	s.Describe()
	s.Position()
	s.NotRenewed(subject.TTL/2, parts...)
}
