package channeltest

import (
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

func epochCases() []testCase {
	return []testCase{
		{
			name: "an epoch stays for a life", ring: true, run: epochStays,
			notice: "receipts are refused without a reason",
		},
		{
			name: "each life of each channel has another epoch", run: epochDiffers,
			notice: "a receipt of an expired channel acknowledges messages of the one that took its name",
		},
		{
			name: "nothing of an earlier life counts", ring: true, run: epochAfterExpiry,
			notice: "a channel that expired and was made anew has subscribers, messages or IDs of the old one",
		},
		{
			name: "a receipt of an earlier life is refused", run: epochOldReceipt,
			notice: "messages that nobody saw are acknowledged by a receipt of a channel that expired",
		},
		{
			name: "a mark ahead of the clock is none", run: epochMarkAhead,
			notice: "a subscriber's mark that Redis kept from an earlier life hides the messages of the new one",
		},
		{
			name: "a life begins however many marks are left of an earlier one", run: epochManyMarks,
			notice: "after Redis evicted the clock of a large channel nothing can be published, or old subscribers are there again",
		},
		{
			name: "a life ends with its clock", run: epochWithoutClock,
			notice: "after Redis evicted a channel's clock, messages are published into nowhere, or old marks hide new messages",
		},
	}
}

func (s *subject) epochs() []ulid.ULID {
	s.t.Helper()
	return []ulid.ULID{s.position().Epoch, s.fetch("s").Epoch, s.describe().Epoch}
}

func epochStays(s *subject) {
	epoch := s.subscribe("s").Epoch
	require.NotZero(s.t, epoch)
	same := func() {
		s.t.Helper()
		require.Equal(s.t, []ulid.ULID{epoch, epoch, epoch}, s.epochs())
	}
	same()
	s.publish("a", "b", "c", "d")
	same()
	s.ack("s", s.fetch("s"))
	require.Equal(s.t, epoch, s.subscribe("other").Epoch)
	s.unsubscribe("other")
	again, err := s.trySubscribe("s", channel.From{})
	require.NoError(s.t, err)
	require.Equal(s.t, epoch, again.Epoch)
	s.expireMessages(1, 4)
	same()
}

func epochDiffers(s *subject) {
	seen := map[ulid.ULID]bool{}
	fresh := func(epoch ulid.ULID) {
		s.t.Helper()
		require.NotZero(s.t, epoch)
		require.False(s.t, seen[epoch], "an epoch that was there before")
		seen[epoch] = true
	}
	for range 3 {
		fresh(s.subscribe("s").Epoch)
		s.expireAll()
		s.publish("a")
		fresh(s.position().Epoch)
		s.expireAll()
		fresh(s.on("other").subscribe(longName[:len(seen)+1]).Epoch)
		s.on("other").expireAll()
	}
}

func epochAfterExpiry(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	s.expireAll()
	_, err := s.readPosition()
	require.ErrorIs(s.t, err, channel.ErrNoChannel)
	_, err = s.tryDescribe()
	require.ErrorIs(s.t, err, channel.ErrNoChannel)
	_, err = s.store.Fetch(s.ctx(), s.request("s", 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber)

	require.Equal(s.t, []channel.Published{{ID: "b", Clock: 1}}, s.publish("b"))
	require.Empty(s.t, s.describe().Subscribers)
	s.subscribeFrom("s", channel.From{Start: channel.StartEarliest})
	s.reads("s", 0, "b")
}

func epochOldReceipt(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	old := s.receiptFor("s", s.fetchUpTo("s", 1))
	s.expireAll()
	require.ErrorIs(s.t, s.tryAck(old), channel.ErrNoSubscriber)
	s.subscribe("s")
	require.ErrorIs(s.t, s.tryAck(old), channel.ErrReceiptEpoch)
	s.publish("a", "b") // the same IDs: only the epoch tells
	require.ErrorIs(s.t, s.tryAck(old), channel.ErrReceiptEpoch)
	_, err := s.tryNext(old, 1)
	require.ErrorIs(s.t, err, channel.ErrReceiptEpoch)
	b := s.reads("s", 0, "a", "b")
	require.Equal(s.t, clock.Clock(0), b.Mark)
	s.ack("s", b)
	require.ErrorIs(s.t, s.tryAck(old), channel.ErrReceiptEpoch, "behind the mark too")
}

// epochWithoutClock does what an evicting maxmemory-policy can do.
func epochWithoutClock(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c")
	b := s.fetchUpTo("s", 1)
	old := s.position().Epoch
	s.expire(clockPart)
	_, err := s.readPosition()
	require.ErrorIs(s.t, err, channel.ErrNoChannel)
	_, err = s.store.Fetch(s.ctx(), s.request("s", 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber)

	require.Equal(s.t, []channel.Published{{ID: "b", Clock: 1}}, s.publish("b"),
		"a dedup record of the earlier life doesn't count: its message can't be read any more")
	require.NotEqual(s.t, old, s.position().Epoch)
	_, err = s.store.Fetch(s.ctx(), s.request("s", 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber, "a mark of the earlier life doesn't count")
	s.subscribeFrom("s", channel.From{Start: channel.StartEarliest})
	require.ErrorIs(s.t, s.tryAck(s.receiptFor("s", b)), channel.ErrReceiptEpoch)
	s.publish("x", "y", "z")
	s.reads("s", 0, "b", "x", "y", "z")
}

// epochMarkAhead lets a mark alone outlive its channel's life, which nothing but an eviction does.
func epochMarkAhead(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c", "d")
	s.ack("s", s.fetch("s"))
	s.expire(clockPart, epochPart, subscribersPart)
	s.publish("x", "y")
	_, err := s.store.Fetch(s.ctx(), s.request("s", 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber)
	require.Empty(s.t, s.describe().Subscribers)
	s.subscribeFrom("s", channel.From{Start: channel.StartEarliest})
	s.reads("s", 0, "x", "y")
}

func epochManyMarks(s *subject) {
	for _, begin := range []func(){
		func() { s.publish("a") },
		func() { s.batch("b", "c") },
		func() { s.subscribe("new") },
	} {
		old := names(2000)
		for _, name := range old {
			s.subscribe(name)
		}
		s.expire(clockPart, epochPart)
		begin()
		_, err := s.store.Fetch(s.ctx(), s.request(old[0], 1))
		require.ErrorIs(s.t, err, channel.ErrNoSubscriber)
		for _, name := range old {
			require.Zero(s.t, s.life(mark(name)), "no mark of the earlier life is left")
		}
		s.expireAll()
	}
}

// wrapCases are about the wrap alone. Ring cases go over it too.
func wrapCases() []testCase {
	return []testCase{
		{
			name: "the document's example", run: wrapExample,
			notice: "after 2^53-1 messages a channel stops, or its subscribers do",
		},
		{
			name: "clocks are decimal integers at the edges", run: wrapEdges,
			notice: "near 2^53 two messages share a clock, or a clock is lost to rounding",
		},
		{
			name: "a mark before the wrap and one after it", run: wrapMarks,
			notice: "at the wrap a subscriber gets everything again, or nothing any more",
		},
	}
}

// wrapExample is the example of the document that the keys come from: the mark at 2^53-3, the channel's clock at
// -(2^53-1)+1, and four unread messages.
func wrapExample(s *subject) {
	s.wind(1<<53 - 3)
	s.subscribe("s")
	s.publish("a", "b", "c", "d")
	b := s.reads("s", 0, "a", "b", "c", "d")
	var clocks []clock.Clock
	for _, m := range b.Messages {
		clocks = append(clocks, m.Clock)
	}
	require.Equal(s.t, []clock.Clock{1<<53 - 2, 1<<53 - 1, -(1<<53 - 1), -(1<<53 - 1) + 1}, clocks)
	require.Equal(s.t, clock.Clock(1<<53-3), b.Mark)
	require.Equal(s.t, clock.Clock(-(1<<53-1)+1), b.Clock)
	require.Equal(s.t, uint64(4), s.describe().Subscribers[0].Lag)
}

func wrapEdges(s *subject) {
	for i, edge := range []clock.Clock{
		clock.Max, clock.Max - 1, clock.Min, clock.Min + 1, -1, 1 << 52, -(1 << 52),
		99_999_999_999_999, 100_000_000_000_000, -100_000_000_000_001, 999_999_999_999_999, 1 << 31, 1<<31 - 1,
	} {
		at := s.on(longName[:i+1])
		at.wind(edge)
		at.subscribe("s")
		require.Equal(s.t, []channel.Published{{ID: "a", Clock: edge.Next()}}, at.publish("a"))
		require.Equal(s.t, []channel.Published{
			{ID: "b", Clock: edge.Next().Next()},
			{ID: "a", Clock: edge.Next(), Duplicate: true},
		}, at.batch("b", "a"))
		b := at.fetchUpTo("s", 1)
		require.Equal(s.t, edge, b.Mark)
		require.Equal(s.t, edge.Next(), b.Through)
		at.holds(at.next("s", b, 1), 0, "b")
		require.Equal(s.t, edge.Next().Next(), at.position().Clock)
	}
}

func wrapMarks(s *subject) {
	s.wind(clock.Max - 1)
	for _, name := range []string{"0", "1", "2", "3"} {
		s.subscribe(name)
		s.publish("after" + name)
	}
	s.reads("0", 0, "after0", "after1", "after2", "after3")
	s.reads("1", 0, "after1", "after2", "after3") // its mark is Max
	s.reads("2", 0, "after2", "after3")           // its mark is Min
	b := s.reads("3", 0, "after3")
	s.ack("0", b)
	s.reads("0", 0)

	ahead := s.receiptFor("1", b)
	ahead.Clock = clock.Min + 3
	require.ErrorIs(s.t, s.tryAck(ahead), channel.ErrReceiptAhead)
	behind := s.receiptFor("3", b)
	behind.Clock = clock.Max
	require.NoError(s.t, s.tryAck(behind))
	require.Equal(s.t, clock.Min+1, s.markOf("3"))
	var lags []uint64
	for _, sub := range s.describe().Subscribers {
		lags = append(lags, sub.Lag)
	}
	require.Equal(s.t, []uint64{0, 3, 2, 1}, lags)
}
