package storagetest

import (
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/receipt"
)

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
