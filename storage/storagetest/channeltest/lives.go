package channeltest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func lifeCases() []testCase {
	return []testCase{
		{
			name: "everything has a life", run: lifeOfAll,
			notice: "channels that nobody uses any more fill Redis forever, or end before their time",
		},
		{
			name: "publish renews the channel but no mark", run: lifePublish,
			notice: "a busy channel ends, or subscribers that never come back are kept by it",
		},
		{
			name: "subscribe, fetch, ack and next renew the channel and the mark", run: lifeRenewed,
			notice: "a channel or a subscriber that is in use ends",
		},
		{
			name: "an idle poll writes nothing while 9/10 of the life is left", run: lifeKept,
			notice: "idle polls cost replication traffic",
		},
		{
			name: "an ack leaves the mark its whole life", run: lifeAcked,
			notice: "a subscriber is lost sooner than the channel's TTL after its last ack",
		},
		{
			name: "a fetch that was answered leaves the mark its whole life", run: lifeAnswered,
			notice: "a subscriber is lost sooner than the channel's TTL after it got messages",
		},
		{
			name: "a fetch that is going to wait leaves the mark its whole life after that", run: lifeWaited,
			notice: "a subscriber is lost sooner than the channel's TTL after its long poll was answered",
		},
		{
			name: "marks that are renewed prolong no message", run: lifeOfLaterMessage,
			notice: "messages stay for longer than the channel's TTL",
		},
		{
			name: "a mark is renewed though its channel is young", run: lifeOfMark,
			notice: "a subscriber that polls a busy channel is lost after the channel's TTL",
		},
		{
			name: "a message's life is never prolonged", run: lifeOfMessage,
			notice: "messages stay for longer than the channel's TTL",
		},
		{
			name: "a shorter TTL doesn't end what is alive", run: lifeShortened,
			notice: "after the TTL was lowered, messages are lost before the end of their lives",
		},
		{
			name: "a longer TTL holds from the next use", run: lifeProlonged,
			notice: "after the TTL was raised, a channel or a subscriber in use ends by the old one",
		},
		{
			name: "looking at a channel doesn't renew it", run: lifeLookedAt,
			notice: "monitoring keeps dead channels alive",
		},
	}
}

// whole tells whether a part has got a whole life of late.
func (s *subject) whole(parts ...Part) {
	s.t.Helper()
	for _, p := range parts {
		left, limit := s.life(p), s.policy.TTL
		if p == clockPart || p == epochPart || p == subscribersPart {
			limit += limit / 10 // so that the channel needn't be renewed with each mark
		}
		require.Greater(s.t, left, s.policy.TTL*95/100, "the life of %s is renewed", p)
		require.LessOrEqual(s.t, left, limit, "the life of %s", p)
	}
}

// within tells whether parts have no more than a life that was set before.
func (s *subject) within(limit time.Duration, parts ...Part) {
	s.t.Helper()
	for _, p := range parts {
		left := s.life(p)
		require.LessOrEqual(s.t, left, limit, "the life of %s isn't renewed", p)
		require.Greater(s.t, left, limit/2, "the life of %s isn't cut", p)
	}
}

// outlives checks that the clock lives at least as long as other parts, and the epoch and the list of subscribers at least as
// long as the clock. What must live longer is read last: time only helps it.
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
	s.whole(clockPart, epochPart, message(1), record("a"))
	s.subscribe("s")
	s.whole(clockPart, epochPart, mark("s"), subscribersPart)
	s.batch("b", "c")
	s.whole(clockPart, epochPart, message(2), record("b"), message(3), record("c"))
	s.outlives(mark("s"), message(1), message(3), record("c"), subscribersPart)

	quiet := s.on("quiet")
	quiet.subscribe("s")
	quiet.whole(clockPart, epochPart, mark("s"), subscribersPart)
}

func lifePublish(s *subject) {
	s.subscribe("s")
	s.publish("a")
	s.setLife(ttl/2, clockPart, epochPart, subscribersPart, mark("s"), message(1), record("a"))
	s.publish("b")
	s.whole(clockPart, epochPart, subscribersPart, message(2), record("b"))
	s.within(ttl/2, mark("s"), message(1), record("a"))
	s.setLife(ttl/2, clockPart, epochPart, subscribersPart)
	s.batch("b", "c")
	s.whole(clockPart, epochPart, subscribersPart, message(3), record("c"))
}

// uses are the calls of a subscriber that renew its life. Acknowledged is what can be read when uses is called.
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
	s.subscribe("s")
	s.subscribe("other")
	all := []Part{clockPart, epochPart, subscribersPart, mark("s")}
	for name, use := range uses(s) {
		for _, left := range []time.Duration{ttl * 85 / 100, ttl / 2, time.Minute} {
			s.t.Logf("%s with %s left", name, left)
			s.setLife(left, append(all, mark("other"))...)
			use()
			s.whole(all...)
			s.within(left, mark("other"))
			s.outlives(mark("s"))
		}
	}
	// An ack that moves the mark, and one within next.
	s.publish("a", "b")
	b := s.fetchUpTo("s", 1)
	s.setLife(ttl/2, all...)
	s.ack("s", b)
	s.whole(all...)
	b = s.fetchUpTo("s", 1)
	s.setLife(ttl/2, all...)
	s.next("s", b, 1)
	s.whole(all...)
}

// mostLeft is what is left of a life that an idle poll doesn't renew.
const mostLeft = ttl * 93 / 100

func lifeKept(s *subject) {
	s.subscribe("s")
	all := []Part{clockPart, epochPart, subscribersPart, mark("s")}
	s.setLife(mostLeft, all...)
	b := s.fetch("s")
	s.within(mostLeft, all...)
	s.next("s", b, 1)
	s.within(mostLeft, all...)
}

func lifeAcked(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c")
	all := []Part{clockPart, epochPart, subscribersPart, mark("s")}
	first := s.fetchUpTo("s", 1)
	second := s.fetchUpTo("s", 2)
	for _, use := range []func(){
		func() { s.ack("s", first) },
		func() { s.ack("s", first) }, // a repeat
		func() { s.next("s", second, 1) },
		func() { s.next("s", second, 1) }, // a repeat that is answered with a message
		func() { s.ack("s", s.fetch("s")) },
	} {
		s.setLife(mostLeft, all...)
		use()
		s.whole(all...)
		s.outlives(mark("s"))
	}
}

func lifeAnswered(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	all := []Part{clockPart, epochPart, subscribersPart, mark("s")}
	s.setLife(mostLeft, all...)
	s.reads("s", 0, "a", "b")
	s.whole(all...)
	s.outlives(mark("s"))
	s.expireMessages(1, 2)
	s.setLife(mostLeft, all...)
	s.reads("s", 2)
	s.whole(mark("s"))
}

func lifeWaited(s *subject) {
	s.subscribe("s")
	r := s.request("s", 1)
	r.Wait = 10 * time.Minute
	all := []Part{clockPart, epochPart, subscribersPart, mark("s")}
	least := ttl + r.Wait
	waits := func() {
		s.t.Helper()
		for _, p := range all {
			require.Greater(s.t, s.life(p), least, "the life of %s lasts for the wait and the TTL", p)
			require.LessOrEqual(s.t, s.life(p), least+ttl/9, "the life of %s", p)
		}
		s.outlives(mark("s"))
	}
	s.fetchWith(r)
	waits()
	s.setLife(least+ttl/50, all...)
	s.fetchWith(r)
	for _, p := range all {
		require.LessOrEqual(s.t, s.life(p), least+ttl/50, "the next poll writes nothing")
	}
	s.setLife(least*98/100, all...)
	s.fetchWith(r)
	waits()

	s.publish("a")
	b := s.fetchWith(r)
	s.setLife(ttl/2, all...)
	_, err := s.store.Next(s.ctx(), channel.AckRequest{Receipt: s.receiptFor("s", b), Policy: s.policy}, r)
	require.NoError(s.t, err)
	require.InDelta(s.t, least, s.life(mark("s")), float64(ttl/100), "next leaves the mark the wait and the TTL")
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
	s.whole(message(2), record("b"))
	s.outlives(mark("s"), message(2))
	s.policy.TTL = time.Minute
	s.publish("c")
	require.GreaterOrEqual(s.t, s.life(message(3)), s.life(message(2)), "no message ends before one in front of it")
}

func lifeOfMark(s *subject) {
	s.subscribe("s")
	for name, use := range uses(s) {
		s.t.Log(name)
		s.setLife(ttl*95/100, clockPart, epochPart)
		s.setLife(ttl/2, mark("s"))
		use()
		s.whole(mark("s"))
		s.outlives(mark("s"))
	}
}

func lifeOfMessage(s *subject) {
	s.subscribe("s")
	s.publish("a")
	for name, use := range uses(s) {
		s.t.Log(name)
		s.setLife(ttl/2, clockPart, epochPart, mark("s"), message(1), record("a"))
		use()
		s.within(ttl/2, message(1), record("a"))
	}
}

func lifeShortened(s *subject) {
	s.subscribe("s")
	s.publish("a")
	s.policy.TTL = time.Minute
	alive := []Part{message(1), record("a")}
	check := func() {
		s.t.Helper()
		s.outlives(alive...)
		require.Greater(s.t, s.life(clockPart), ttl/2, "the channel lives as long as what it has")
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
		s.whole(clockPart, epochPart, mark("s"))
		s.outlives(mark("s"), mark("other"), message(1))
	}
	s.policy.TTL *= 2
	s.publish("b")
	s.whole(clockPart, epochPart, message(2), record("b"))
	s.policy.TTL *= 2
	s.subscribe("late")
	s.whole(clockPart, epochPart, mark("late"))
	s.outlives(mark("late"), mark("s"), message(2))
}

func lifeLookedAt(s *subject) {
	s.subscribe("s")
	s.publish("a")
	all := []Part{clockPart, epochPart, subscribersPart, mark("s"), message(1), record("a")}
	s.setLife(ttl/2, all...)
	s.describe()
	s.position()
	s.within(ttl/2, all...)
}
