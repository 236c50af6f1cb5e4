package channeltest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func lifeCases() []testCase {
	return []testCase{
		{name: "everything has a life", run: lifeOfAll},
		{name: "publish renews the channel but no mark and no other message", run: lifePublish},
		{name: "subscribe, fetch, ack and next renew the channel and the mark but no message", run: lifeRenewed},
		{name: "an idle poll writes nothing while 9/10 of the life is left", run: lifeKept},
		{name: "an ack renews the whole life of the mark", run: lifeAcked},
		{name: "a fetch that returns messages renews the whole life of the mark", run: lifeAnswered},
		{name: "a fetch before a wait adds the wait to the life of the mark", run: lifeWaited},
		{name: "a message's life doesn't depend on the marks", run: lifeOfLaterMessage},
		{name: "a shorter TTL ends nothing early", run: lifeShortened},
		{name: "a longer TTL holds from the next use", run: lifeProlonged},
		{name: "describe and positions renew nothing", run: lifeDescribed},
	}
}

// ownParts are the parts that a call of the subscriber "s" renews.
var ownParts = []Part{clockPart, epochPart, subscribersPart, mark("s")}

// renewed checks that the lives of parts were just renewed.
func (s *subject) renewed(parts ...Part) {
	s.t.Helper()
	for _, p := range parts {
		left, limit := s.life(p), s.policy.TTL
		if p == clockPart || p == epochPart || p == subscribersPart {
			limit += limit / 10 // spare time: not every renewal of a mark has to renew the channel
		}
		require.Greater(s.t, left, s.policy.TTL*95/100, "the life of %s is renewed", p)
		require.LessOrEqual(s.t, left, limit, "the life of %s", p)
	}
}

// notRenewed checks that the lives of parts, set before, are not renewed.
func (s *subject) notRenewed(limit time.Duration, parts ...Part) {
	s.t.Helper()
	for _, p := range parts {
		left := s.life(p)
		require.LessOrEqual(s.t, left, limit, "the life of %s isn't renewed", p)
		require.Greater(s.t, left, limit/2, "the life of %s isn't cut", p)
	}
}

// outlives checks that the clock lives at least as long as other parts, and the epoch and the list of subscribers at
// least as long as the clock. The longer life is read last, so that the time between the reads can't fail the check.
func (s *subject) outlives(others ...Part) {
	s.t.Helper()
	for _, p := range others {
		if p != subscribersPart {
			of := s.life(clockPart)
			require.GreaterOrEqual(s.t, of, s.life(p), "the channel's clock lives as long as %s", p)
		}
	}
	for _, p := range []Part{epochPart, subscribersPart} {
		if p == epochPart || slices.Contains(others, p) {
			left := s.life(p)
			require.GreaterOrEqual(s.t, left, s.life(clockPart), "%s lives as long as the clock", p)
		}
	}
}

func lifeOfAll(s *subject) {
	s.publish("a")
	s.renewed(clockPart, epochPart, message(1), record("a"))
	s.subscribe("s")
	s.renewed(clockPart, epochPart, mark("s"), subscribersPart)
	s.batch("b", "c")
	s.renewed(clockPart, epochPart, message(2), record("b"), message(3), record("c"))
	s.outlives(mark("s"), message(1), message(3), record("c"), subscribersPart)

	quiet := s.on("quiet")
	quiet.subscribe("s")
	quiet.renewed(clockPart, epochPart, mark("s"), subscribersPart)
}

func lifePublish(s *subject) {
	s.subscribe("s")
	s.publish("a")
	s.setLife(ttl/2, clockPart, epochPart, subscribersPart, mark("s"), message(1), record("a"))
	s.publish("b")
	s.renewed(clockPart, epochPart, subscribersPart, message(2), record("b"))
	s.notRenewed(ttl/2, mark("s"), message(1), record("a"))
	s.setLife(ttl/2, clockPart, epochPart, subscribersPart)
	s.batch("b", "c")
	s.renewed(clockPart, epochPart, subscribersPart, message(3), record("c"))
}

// uses returns the calls that renew the life of the subscriber "s". The receipt is of what is unread now.
func uses(s *subject) map[string]func() {
	old := s.fetch("s")
	return map[string]func(){
		"subscribe": func() {
			_, err := s.trySubscribe("s", channel.From{})
			require.NoError(s.t, err)
		},
		"fetch": func() { s.fetch("s") },
		"ack":   func() { s.ack("s", old) },
		"next":  func() { s.next("s", old, 10) },
	}
}

func lifeRenewed(s *subject) {
	s.publish("old")
	s.subscribe("s")
	s.subscribe("other")
	others := []Part{mark("other"), message(1), record("old")}
	for name, use := range uses(s) {
		for _, left := range []time.Duration{ttl * 85 / 100, ttl / 2, time.Minute} {
			s.t.Logf("%s with %s left", name, left)
			s.setLife(left, slices.Concat(ownParts, others)...)
			use()
			s.renewed(ownParts...)
			s.notRenewed(left, others...)
			s.outlives(mark("s"))
		}
		s.setLife(ttl*95/100, clockPart, epochPart) // the mark is due, the channel isn't
		s.setLife(ttl/2, mark("s"))
		use()
		s.renewed(mark("s"))
		s.outlives(mark("s"))
	}
	// An ack that moves the mark, and one within next.
	s.publish("a", "b")
	b := s.fetchUpTo("s", 1)
	s.setLife(ttl/2, ownParts...)
	s.ack("s", b)
	s.renewed(ownParts...)
	b = s.fetchUpTo("s", 1)
	s.setLife(ttl/2, ownParts...)
	s.next("s", b, 1)
	s.renewed(ownParts...)
}

// mostLeft is a rest of a life that an idle poll doesn't renew.
const mostLeft = ttl * 93 / 100

func lifeKept(s *subject) {
	s.subscribe("s")
	s.setLife(mostLeft, ownParts...)
	b := s.fetch("s")
	s.notRenewed(mostLeft, ownParts...)
	s.next("s", b, 1)
	s.notRenewed(mostLeft, ownParts...)
}

func lifeAcked(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c")
	first := s.fetchUpTo("s", 1)
	second := s.fetchUpTo("s", 2)
	for _, use := range []func(){
		func() { s.ack("s", first) },
		func() { s.ack("s", first) }, // a repeat
		func() { s.next("s", second, 1) },
		func() { s.next("s", second, 1) }, // a repeat that returns a message
		func() { s.ack("s", s.fetch("s")) },
	} {
		s.setLife(mostLeft, ownParts...)
		use()
		s.renewed(ownParts...)
		s.outlives(mark("s"))
	}
}

func lifeAnswered(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	messages := []Part{message(1), record("a")}
	s.setLife(mostLeft, slices.Concat(ownParts, messages)...)
	s.reads("s", 0, "a", "b")
	s.renewed(ownParts...)
	s.notRenewed(mostLeft, messages...)
	s.outlives(mark("s"))
	s.expireMessages(1, 2)
	s.setLife(mostLeft, ownParts...)
	s.reads("s", 2)
	s.renewed(mark("s"))
}

func lifeWaited(s *subject) {
	s.subscribe("s")
	r := s.request("s", 1)
	r.Wait = 10 * time.Minute
	least := ttl + r.Wait
	waits := func() {
		s.t.Helper()
		for _, p := range ownParts {
			require.Greater(s.t, s.life(p), least, "the life of %s covers the wait and the TTL", p)
			require.LessOrEqual(s.t, s.life(p), least+ttl/9, "the life of %s", p)
		}
		s.outlives(mark("s"))
	}
	s.fetchWith(r)
	waits()
	s.setLife(least+ttl/50, ownParts...)
	s.fetchWith(r)
	for _, p := range ownParts {
		require.LessOrEqual(s.t, s.life(p), least+ttl/50, "the next poll writes nothing")
	}
	s.setLife(least*98/100, ownParts...)
	s.fetchWith(r)
	waits()

	s.publish("a")
	b := s.fetchWith(r)
	s.setLife(ttl/2, ownParts...)
	_, err := s.store.Next(s.ctx(), channel.AckRequest{Receipt: s.receiptFor("s", b), Policy: s.policy}, r)
	require.NoError(s.t, err)
	require.InDelta(s.t, least, s.life(mark("s")), float64(ttl/100), "after next the mark's life covers the wait and the TTL")
	s.outlives(mark("s"))
}

func lifeOfLaterMessage(s *subject) {
	s.subscribe("s")
	s.publish("a")
	r := s.request("s", 1)
	r.Wait = ttl / 2
	b := s.fetchWith(r)
	s.ack("s", b)
	s.fetchWith(r)
	s.publish("b")
	s.renewed(message(2), record("b"))
	s.outlives(mark("s"), message(2))
	s.policy.TTL = time.Minute
	s.publish("c")
	require.GreaterOrEqual(s.t, s.life(message(3)), s.life(message(2)), "no message ends before an earlier one")
}

func lifeShortened(s *subject) {
	s.subscribe("s")
	s.publish("a")
	s.policy.TTL = time.Minute
	alive := []Part{message(1), record("a")}
	check := func() {
		s.t.Helper()
		s.outlives(alive...)
		require.Greater(s.t, s.life(clockPart), ttl/2, "the channel lives as long as its messages")
	}
	s.publish("b")
	check()
	for name, use := range uses(s) {
		s.t.Log(name)
		use()
		check()
		s.setLife(10*time.Second, mark("s"))
		use()
		s.outlives(mark("s"))
		require.Greater(s.t, s.life(mark("s")), 50*time.Second, "the mark is renewed by the shorter TTL")
		require.Greater(s.t, s.life(clockPart), ttl/2, "the channel isn't cut when a mark is renewed")
		require.Greater(s.t, s.life(epochPart), ttl/2, "the epoch isn't cut when a mark is renewed")
	}
	s.subscribe("late")
	check()
	s.outlives(message(2), mark("late"))
	s.outlives(append(alive, message(2), mark("late"))...)
}

func lifeProlonged(s *subject) {
	s.subscribe("s")
	s.subscribe("other")
	s.publish("a")
	for name, use := range uses(s) {
		s.t.Log(name)
		s.policy.TTL *= 2
		use()
		s.renewed(clockPart, epochPart, mark("s"))
		s.outlives(mark("s"), mark("other"), message(1))
	}
	s.policy.TTL *= 2
	s.publish("b")
	s.renewed(clockPart, epochPart, message(2), record("b"))
	s.policy.TTL *= 2
	s.subscribe("late")
	s.renewed(clockPart, epochPart, mark("late"))
	s.outlives(mark("late"), mark("s"), message(2))
}

func lifeDescribed(s *subject) {
	s.subscribe("s")
	s.publish("a")
	parts := slices.Concat(ownParts, []Part{message(1), record("a")})
	s.setLife(ttl/2, parts...)
	s.describe()
	s.position()
	s.notRenewed(ttl/2, parts...)
}
