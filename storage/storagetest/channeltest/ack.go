package channeltest

import (
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

func ackCases() []testCase {
	return []testCase{
		{
			name: "a receipt moves the mark to where its fetch ended", ring: true, run: ackCurrent,
			notice: "acknowledged messages come again, or unread ones don't come",
		},
		{
			name: "a repeated or older receipt changes nothing", ring: true, run: ackBehind,
			notice: "a retried ack fails, or a late one brings acknowledged messages back",
		},
		{
			name: "a receipt of messages that have come again is as good", ring: true, run: ackEither,
			notice: "after a redelivery the first receipt, or the second, is refused",
		},
		{
			name: "a receipt ahead of the clock is refused", ring: true, run: ackAhead,
			notice: "messages that are published later are skipped unread",
		},
		{
			name: "a receipt of another epoch is refused", ring: true, run: ackEpoch,
			notice: "a receipt of another life of the channel acknowledges messages that nobody saw",
		},
		{
			name: "a receipt of a message that another has replaced is refused", ring: true, run: ackSuperseded,
			notice: "after a fail-over that lost writes, messages are acknowledged that nobody saw",
		},
		{
			name: "a receipt of a message that is gone is good", ring: true, run: ackGone,
			notice: "an ack fails because the message has expired meanwhile",
		},
		{
			name: "a receipt that knows no message is good", ring: true, run: ackNoMessage,
			notice: "an ack of expired messages fails",
		},
		{
			name: "an ack without a subscriber is refused", run: ackNobody,
			notice: "an ack for a subscriber that was removed succeeds, or makes it anew",
		},
	}
}

func ackCurrent(s *subject) {
	s.subscribe("s")
	s.publish(numbered(5)...)
	s.ack("s", s.fetchUpTo("s", 2))
	require.Equal(s.t, s.at(2), s.markOf("s"))
	b := s.reads("s", 0, "m3", "m4", "m5")
	s.ack("s", b)
	require.Equal(s.t, s.at(5), s.markOf("s"))
	s.reads("s", 0)
	s.publish("new")
	s.reads("s", 0, "new")
}

func ackBehind(s *subject) {
	s.subscribe("s")
	nothing := s.reads("s", 0)
	s.publish(numbered(6)...)
	first := s.fetchUpTo("s", 2)
	second := s.next("s", first, 2)
	s.ack("s", second)
	for _, old := range []channel.Batch{second, first, nothing, second} {
		s.ack("s", old)
		require.Equal(s.t, s.at(4), s.markOf("s"), "a receipt through %s doesn't move the mark", old.Through)
	}
	s.reads("s", 0, "m5", "m6")
}

func ackEither(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	first := s.reads("s", 0, "a", "b")
	s.publish("c")
	second := s.reads("s", 0, "a", "b", "c")
	s.ack("s", second)
	s.ack("s", first)
	require.Equal(s.t, s.at(3), s.markOf("s"))

	s.publish("d", "e")
	long, short := s.reads("s", 0, "d", "e"), s.fetchUpTo("s", 1)
	s.ack("s", short)
	s.ack("s", long)
	require.Equal(s.t, s.at(5), s.markOf("s"))
}

func ackAhead(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	b := s.reads("s", 0, "a", "b")
	for _, steps := range []uint64{1, 2, million, 1 << 52} {
		r := s.receiptFor("s", b)
		r.Clock = r.Clock.Add(steps)
		require.ErrorIs(s.t, s.tryAck(r), channel.ErrReceiptAhead, "%d ahead", steps)
	}
	require.Equal(s.t, s.at(0), s.markOf("s"), "a refused receipt doesn't move the mark")
	s.ack("s", b)
	r := s.receiptFor("s", b)
	r.Clock = r.Clock.Next()
	require.ErrorIs(s.t, s.tryAck(r), channel.ErrReceiptAhead, "where the mark is at the clock")
	s.publish("c")
	s.reads("s", 0, "c")
}

func ackEpoch(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	b := s.reads("s", 0, "a", "b")
	for _, epoch := range []ulid.ULID{{}, ulid.Make(), ulid.MustParse("7ZZZZZZZZZZZZZZZZZZZZZZZZZ")} {
		r := s.receiptFor("s", b)
		r.Epoch = epoch
		require.ErrorIs(s.t, s.tryAck(r), channel.ErrReceiptEpoch)
		r.Clock = s.at(0)
		require.ErrorIs(s.t, s.tryAck(r), channel.ErrReceiptEpoch, "behind the mark too")
	}
	require.Equal(s.t, s.at(0), s.markOf("s"), "a refused receipt doesn't move the mark")
	s.ack("s", b)
}

// ackSuperseded does to the channel what a fail-over does that loses its last two publishes.
func ackSuperseded(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c")
	lost := s.reads("s", 0, "a", "b", "c")
	kept := s.fetchUpTo("s", 1)
	s.setClock(s.at(1))
	s.expire(message(s.at(2)), message(s.at(3)), record("b"), record("c"))
	require.ErrorIs(s.t, s.tryAck(s.receiptFor("s", lost)), channel.ErrReceiptAhead)

	s.publish("x", longName, "z") // the longest ID stands where c stood
	require.ErrorIs(s.t, s.tryAck(s.receiptFor("s", lost)), channel.ErrReceiptSuperseded)
	require.Equal(s.t, s.at(0), s.markOf("s"), "a refused receipt doesn't move the mark")
	s.ack("s", kept)
	s.ack("s", s.reads("s", 0, "x", longName, "z"))
	s.ack("s", lost) // behind the mark now: a retry
	require.Equal(s.t, s.at(4), s.markOf("s"))
}

func ackGone(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c")
	b := s.fetchUpTo("s", 2)
	s.expireMessages(2, 2)
	s.ack("s", b)
	require.Equal(s.t, s.at(2), s.markOf("s"))
	s.reads("s", 0, "c")
}

func ackNoMessage(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	r := s.receiptFor("s", s.fetchUpTo("s", 1))
	r.MessageID = ""
	require.NoError(s.t, s.tryAck(r))
	s.reads("s", 0, "b")
}

func ackNobody(s *subject) {
	nobody := receipt.Receipt{Channel: s.channel, Subscriber: "s", Epoch: ulid.Make(), Clock: 1}
	require.ErrorIs(s.t, s.tryAck(nobody), channel.ErrNoSubscriber, "on a channel that doesn't exist")
	_, err := s.readPosition()
	require.ErrorIs(s.t, err, channel.ErrNoChannel, "an ack makes no channel")

	s.subscribe("s")
	s.publish("a")
	b := s.reads("s", 0, "a")
	s.unsubscribe("s")
	require.ErrorIs(s.t, s.tryAck(s.receiptFor("s", b)), channel.ErrNoSubscriber, "after unsubscribe")
	require.Empty(s.t, s.describe().Subscribers)
	require.Equal(s.t, clock.Clock(1), s.position().Clock)
}

func nextCases() []testCase {
	return []testCase{
		{
			name: "next acknowledges and then fetches", ring: true, run: nextMoves,
			notice: "a consumer's loop gets messages twice, or skips some",
		},
		{
			name: "next with an old receipt fetches from the mark", ring: true, run: nextStale,
			notice: "a retried next fails, or brings acknowledged messages back",
		},
		{
			name: "next with a bad receipt is refused as a whole", ring: true, run: nextRefused,
			notice: "a refused receipt moves the mark all the same",
		},
		{
			name: "next passes over expired messages", ring: true, run: nextGaps,
			notice: "a consumer's loop sticks behind expired messages",
		},
		{
			name: "next without a subscriber is refused", run: nextNobody,
			notice: "a consumer whose subscriber was removed loops forever",
		},
	}
}

func nextMoves(s *subject) {
	s.subscribe("s")
	s.publish(numbered(5)...)
	b := s.fetchUpTo("s", 2)
	s.holds(b, 0, "m1", "m2")
	b = s.next("s", b, 2)
	s.holds(b, 0, "m3", "m4")
	require.Equal(s.t, s.at(2), b.Mark)
	require.Equal(s.t, s.at(4), b.Through)
	require.Equal(s.t, s.at(5), b.Clock)
	b = s.next("s", b, 2)
	s.holds(b, 0, "m5")
	b = s.next("s", b, 2)
	s.holds(b, 0)
	require.Equal(s.t, s.at(5), b.Mark)
	require.Equal(s.t, b.Mark, b.Through)
	s.publish("new")
	s.holds(s.next("s", b, 2), 0, "new")
}

func nextStale(s *subject) {
	s.subscribe("s")
	s.publish(numbered(6)...)
	first := s.fetchUpTo("s", 2)
	second := s.next("s", first, 2)
	require.Equal(s.t, second, s.next("s", first, 2), "a repeated next has the same answer")
	s.ack("s", second)
	b := s.next("s", first, 2)
	s.holds(b, 0, "m5", "m6")
	require.Equal(s.t, s.at(4), b.Mark, "the mark doesn't go back")
}

func nextRefused(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c")
	good := s.receiptFor("s", s.fetchUpTo("s", 2))
	epoch, ahead, superseded := good, good, good
	epoch.Epoch = ulid.Make()
	ahead.Clock = s.at(4)
	superseded.MessageID = "other"
	for _, c := range []struct {
		r   receipt.Receipt
		err error
	}{
		{epoch, channel.ErrReceiptEpoch},
		{ahead, channel.ErrReceiptAhead},
		{superseded, channel.ErrReceiptSuperseded},
	} {
		b, err := s.tryNext(c.r, 10)
		require.ErrorIs(s.t, err, c.err)
		require.Empty(s.t, b.Messages, "after an error nothing is read")
		require.Equal(s.t, s.at(0), s.markOf("s"), "a refused receipt doesn't move the mark")
	}
	b, err := s.tryNext(good, 10)
	require.NoError(s.t, err)
	s.holds(b, 0, "c")
}

func nextGaps(s *subject) {
	ids := numbered(30)
	s.subscribe("s")
	s.batch(ids...)
	b := s.fetchUpTo("s", 3)
	s.expireMessages(1, 25)
	b = s.next("s", b, 2)
	s.holds(b, 22, "m26", "m27")
	s.expireMessages(26, 30)
	b = s.next("s", b, 2)
	s.holds(b, 3)
	require.Equal(s.t, s.at(30), b.Through)
	b = s.next("s", b, 2)
	s.holds(b, 0)
	require.Equal(s.t, b.Mark, b.Through, "nothing is left to acknowledge")
}

func nextNobody(s *subject) {
	r := receipt.Receipt{Channel: s.channel, Subscriber: "s", Epoch: ulid.Make(), Clock: 1}
	_, err := s.tryNext(r, 1)
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber, "on a channel that doesn't exist")
	s.subscribe("s")
	s.publish("a")
	b := s.reads("s", 0, "a")
	s.unsubscribe("s")
	_, err = s.tryNext(s.receiptFor("s", b), 1)
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber, "after unsubscribe")
}
