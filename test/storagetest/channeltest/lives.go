package channeltest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func lifeCases() []testCase {
	return []testCase{
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
var ownParts = []Part{channelClock, epoch, subscribers, mark("s")}

func lifeOfAll(s *testChannel) {
	s.Publish("a")
	s.Renewed(channelClock, epoch, message(1), record("a"))
	s.Subscribe("s")
	s.Renewed(channelClock, epoch, mark("s"), subscribers)
	s.Batch("b", "c")
	s.Renewed(channelClock, epoch, message(2), record("b"), message(3), record("c"))
	s.Outlives(mark("s"), message(1), message(3), record("c"), subscribers)

	quiet := s.On("quiet")
	quiet.Subscribe("s")
	quiet.Renewed(channelClock, epoch, mark("s"), subscribers)
}

func lifePublish(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a")
	s.SetLife(ttl/2, channelClock, epoch, subscribers, mark("s"), message(1), record("a"))
	s.Publish("b")
	s.Renewed(channelClock, epoch, subscribers, message(2), record("b"))
	s.NotRenewed(ttl/2, mark("s"), message(1), record("a"))
	s.SetLife(ttl/2, channelClock, epoch, subscribers)
	s.Batch("b", "c")
	s.Renewed(channelClock, epoch, subscribers, message(3), record("c"))
}

// uses returns the calls that renew the life of the subscriber "s". The receipt covers the messages that are unread
// now.
func uses(s *testChannel) map[string]func() {
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

func lifeRenewed(s *testChannel) {
	s.Publish("old")
	s.Subscribe("s")
	s.Subscribe("other")
	others := []Part{mark("other"), message(1), record("old")}
	for name, use := range uses(s) {
		for _, life := range []time.Duration{ttl * 85 / 100, ttl / 2, time.Minute} {
			s.T.Logf("%s with %s left", name, life)
			s.SetLife(life, slices.Concat(ownParts, others)...)
			use()
			s.Renewed(ownParts...)
			s.NotRenewed(life, others...)
			s.Outlives(mark("s"))
		}
		s.SetLife(ttl*95/100, channelClock, epoch) // the mark is due, the channel isn't
		s.SetLife(ttl/2, mark("s"))
		use()
		s.Renewed(mark("s"))
		s.Outlives(mark("s"))
	}
	// An ack that moves the mark, and one within next.
	s.Publish("a", "b")
	b := s.FetchUpTo("s", 1)
	s.SetLife(ttl/2, ownParts...)
	s.Ack("s", b)
	s.Renewed(ownParts...)
	b = s.FetchUpTo("s", 1)
	s.SetLife(ttl/2, ownParts...)
	s.Next("s", b, 1)
	s.Renewed(ownParts...)
}

// mostLeft is a remaining life that an idle poll doesn't renew.
const mostLeft = ttl * 93 / 100

func lifeKept(s *testChannel) {
	s.Subscribe("s")
	s.SetLife(mostLeft, ownParts...)
	b := s.Fetch("s")
	s.NotRenewed(mostLeft, ownParts...)
	s.Next("s", b, 1)
	s.NotRenewed(mostLeft, ownParts...)
}

func lifeAcked(s *testChannel) {
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
		s.Outlives(mark("s"))
	}
}

func lifeAnswered(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b")
	messages := []Part{message(1), record("a")}
	s.SetLife(mostLeft, slices.Concat(ownParts, messages)...)
	s.Reads("s", 0, "a", "b")
	s.Renewed(ownParts...)
	s.NotRenewed(mostLeft, messages...)
	s.Outlives(mark("s"))
	s.ExpireMessages(1, 2)
	s.SetLife(mostLeft, ownParts...)
	s.Reads("s", 2)
	s.Renewed(mark("s"))
}

func lifeWaited(s *testChannel) {
	s.Subscribe("s")
	r := s.Request("s", 1)
	r.Wait = 10 * time.Minute
	least := ttl + r.Wait
	waits := func() {
		s.T.Helper()
		for _, p := range ownParts {
			require.Greater(s.T, s.Life(p), least, "the life of %s covers the wait and the TTL", p)
			require.LessOrEqual(s.T, s.Life(p), least+ttl/9, "the life of %s", p)
		}
		s.Outlives(mark("s"))
	}
	s.FetchWith(r)
	waits()
	s.SetLife(least+ttl/50, ownParts...)
	s.FetchWith(r)
	for _, p := range ownParts {
		require.LessOrEqual(s.T, s.Life(p), least+ttl/50, "the next poll writes nothing")
	}
	s.Unsubscribe("s") // a store remembers for a while how long a subscriber lives
	s.Subscribe("s")
	s.SetLife(least*98/100, ownParts...)
	s.FetchWith(r)
	waits()

	s.Publish("a")
	b := s.FetchWith(r)
	s.SetLife(ttl/2, ownParts...)
	_, err := s.Store.Next(s.Ctx(), channel.AckRequest{Receipt: s.ReceiptFor("s", b), Policy: s.Policy}, r)
	require.NoError(s.T, err)
	require.InDelta(s.T, least, s.Life(mark("s")), float64(ttl/100),
		"after next the mark's life covers the wait and the TTL")
	s.Outlives(mark("s"))
}

func lifeOfLaterMessage(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a")
	r := s.Request("s", 1)
	r.Wait = ttl / 2
	b := s.FetchWith(r)
	s.Ack("s", b)
	s.FetchWith(r)
	s.Publish("b")
	s.Renewed(message(2), record("b"))
	s.Outlives(mark("s"), message(2))
	s.Policy.TTL = time.Minute
	s.Publish("c")
	require.GreaterOrEqual(s.T, s.Life(message(3)), s.Life(message(2)), "no message ends before an earlier one")
}

func lifeShortened(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a")
	s.Policy.TTL = time.Minute
	alive := []Part{message(1), record("a")}
	check := func() {
		s.T.Helper()
		s.Outlives(alive...)
		require.Greater(s.T, s.Life(channelClock), ttl/2, "the channel lives as long as its messages")
	}
	s.Publish("b")
	check()
	for name, use := range uses(s) {
		s.T.Log(name)
		use()
		check()
		s.SetLife(10*time.Second, mark("s"))
		use()
		s.Outlives(mark("s"))
		require.Greater(s.T, s.Life(mark("s")), 50*time.Second, "the mark is renewed by the shorter TTL")
		require.Greater(s.T, s.Life(channelClock), ttl/2, "the channel isn't cut when a mark is renewed")
		require.Greater(s.T, s.Life(epoch), ttl/2, "the epoch isn't cut when a mark is renewed")
	}
	s.Subscribe("late")
	check()
	s.Outlives(message(2), mark("late"))
	s.Outlives(append(alive, message(2), mark("late"))...)
}

func lifeProlonged(s *testChannel) {
	s.Subscribe("s")
	s.Subscribe("other")
	s.Publish("a")
	for name, use := range uses(s) {
		s.T.Log(name)
		s.Policy.TTL *= 2
		use()
		s.Renewed(channelClock, epoch, mark("s"))
		s.Outlives(mark("s"), mark("other"), message(1))
	}
	s.Policy.TTL *= 2
	s.Publish("b")
	s.Renewed(channelClock, epoch, message(2), record("b"))
	s.Policy.TTL *= 2
	s.Subscribe("late")
	s.Renewed(channelClock, epoch, mark("late"))
	s.Outlives(mark("late"), mark("s"), message(2))
}

func lifeDescribed(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a")
	parts := slices.Concat(ownParts, []Part{message(1), record("a")})
	s.SetLife(ttl/2, parts...)
	s.Describe()
	s.Position()
	s.NotRenewed(ttl/2, parts...)
}

// Renewed checks that the lives of parts were just renewed.
func (s *testChannel) Renewed(parts ...Part) {
	s.T.Helper()
	for _, p := range parts {
		life, limit := s.Life(p), s.Policy.TTL
		if p == channelClock || p == epoch || p == subscribers {
			limit += limit / 10 // spare time, since not every renewal of a mark needs to renew the channel
		}
		require.Greater(s.T, life, s.Policy.TTL*95/100, "the life of %s is renewed", p)
		require.LessOrEqual(s.T, life, limit, "the life of %s", p)
	}
}

// NotRenewed checks that the lives of parts, set before, are not renewed.
func (s *testChannel) NotRenewed(limit time.Duration, parts ...Part) {
	s.T.Helper()
	for _, p := range parts {
		life := s.Life(p)
		require.LessOrEqual(s.T, life, limit, "the life of %s isn't renewed", p)
		require.Greater(s.T, life, limit/2, "the life of %s isn't cut", p)
	}
}

// Outlives checks that the clock lives at least as long as other parts, and the epoch and the list of subscribers at
// least as long as the clock. The longer life is read last, so that the time between the reads can't fail the check.
func (s *testChannel) Outlives(others ...Part) {
	s.T.Helper()
	for _, p := range others {
		if p != subscribers {
			of := s.Life(channelClock)
			require.GreaterOrEqual(s.T, of, s.Life(p), "the channel's clock lives as long as %s", p)
		}
	}
	for _, p := range []Part{epoch, subscribers} {
		if p == epoch || slices.Contains(others, p) {
			life := s.Life(p)
			require.GreaterOrEqual(s.T, life, s.Life(channelClock), "%s lives as long as the clock", p)
		}
	}
}
