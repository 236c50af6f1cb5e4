package channeltest

import (
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

// upTo is the position of the n-th message published since the start.
func (s *testChannel) upTo(n int) channel.From {
	return channel.From{Start: channel.StartAt, Clock: s.At(n)}
}

// TryPurge purges messages.
func (s *testChannel) TryPurge(through channel.From, life ulid.ULID) (channel.Purged, error) {
	return s.Store.Purge(s.Ctx(), channel.PurgeRequest{Channel: s.Name, Through: through, Epoch: life, Policy: s.Policy})
}

// Purge purges messages, and checks how many there were, up to the n-th one since the start.
func (s *testChannel) Purge(through channel.From, n int, removed uint64) {
	s.T.Helper()
	p, err := s.TryPurge(through, ulid.ULID{})
	require.NoError(s.T, err, "purge")
	want := channel.Purged{Position: channel.Position{Epoch: s.Position().Epoch, Clock: s.At(n)}, Removed: removed}
	require.Equal(s.T, want, p)
}

// Finds fetches everything unread, and checks the messages and how many are gone.
func (s *testChannel) Finds(name string, expired, purged int, ids ...string) channel.Batch {
	s.T.Helper()
	b := s.Reads(name, expired, ids...)
	require.Equal(s.T, uint64(purged), b.Purged, "the number of purged messages")
	return b
}

// Delete deletes the channel.
func (s *testChannel) Delete() {
	s.T.Helper()
	s.DeleteLife(s.Position().Epoch)
}

// DeleteLife deletes a life of the channel.
func (s *testChannel) DeleteLife(life ulid.ULID) {
	s.T.Helper()
	r := channel.DeleteRequest{Channel: s.Name, Epoch: life, Policy: s.Policy}
	require.NoError(s.T, s.Store.Delete(s.Ctx(), r), "delete")
}

func purgeCases() []testCase {
	return []testCase{
		{Name: "messages up to a clock are gone, and aren't counted as expired", Clocks: true, Run: purgeUpTo},
		{Name: "a repeat purges nothing", Clocks: true, Run: purgeAgain},
		{Name: "messages that had expired before are counted apart", Clocks: true, Run: purgeExpired},
		{Name: "any number of messages is purged", Run: purgeMany},
		{Name: "a record lasts as long as the messages would have", Run: purgeLife},
		{Name: "a purge of a channel with a limit", Clocks: true, Run: purgeKept},
		{Name: "a purge moves no mark, and receipts stay valid", Clocks: true, Run: purgeReceipts},
		{Name: "what can't be purged is refused", Clocks: true, Run: purgeRefused},
		{Name: "streams and tails are told", Clocks: true, Run: purgeAhead},
	}
}

func purgeUpTo(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c", "d")
	s.Purge(s.upTo(2), 2, 2)
	s.Finds("s", 0, 2, "c", "d")
	require.Equal(s.T, uint64(2), s.Describe().Live)
	require.True(s.T, s.Publish("a")[0].Duplicate, "the dedup records stay")
	s.Purge(latest, 4, 2)
	s.Finds("s", 0, 4)
	s.Publish("e")
	b := s.Finds("s", 0, 4, "e")
	s.Ack("s", b)
	s.Finds("s", 0, 0)
	s.SubscribeFrom("new", earliest)
	s.Finds("new", 0, 0, "e")
}

func purgeAgain(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	s.Purge(s.upTo(2), 2, 2)
	s.Purge(s.upTo(2), 2, 0)
	s.Purge(s.upTo(1), 1, 0)
	s.Finds("s", 0, 2, "c")
	s.Purge(latest, 3, 1)
	s.Purge(latest, 3, 0)
	s.Finds("s", 0, 3)
}

func purgeExpired(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c", "d", "e")
	s.ExpireMessages(1, 2)
	s.Purge(s.upTo(4), 4, 2)
	s.Finds("s", 2, 2, "e")
	s.ExpireMessages(5, 5)
	s.Finds("s", 3, 2)
	require.Equal(s.T, uint64(2), s.FetchUpTo("s", 1).Purged)
}

func purgeMany(s *testChannel) {
	const n = 1234
	s.Subscribe("s")
	s.Batch(numbered(n)...)
	s.Purge(s.upTo(n-1), n-1, n-1)
	s.Finds("s", 0, n-1, fmt.Sprint("m", n))
}

func purgeLife(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b")
	s.SetLife(ttl/2, message(1))
	s.SetLife(ttl/4*3, message(2))
	s.Purge(latest, 2, 2)
	life := s.Life(purged)
	require.Greater(s.T, life, ttl/2)
	require.LessOrEqual(s.T, life, ttl/4*3)
	s.Expire(purged)
	s.Finds("s", 2, 0)
}

func purgeKept(s *testChannel) {
	s.Policy.MaxMessages = 3
	s.Subscribe("s")
	s.Publish("a", "b", "c", "d")
	s.Purge(s.upTo(2), 2, 1)
	s.Finds("s", 1, 1, "c", "d")
	s.Publish("e", "f", "g")
	s.Finds("s", 3, 1, "e", "f", "g")
	s.Purge(s.upTo(5), 5, 1)
	b := s.Fetch("s")
	require.Equal(s.T, []string{"f", "g"}, idsOf(b))
	require.Equal(s.T, uint64(5), b.Expired+b.Purged)
}

func purgeReceipts(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	two := s.FetchUpTo("s", 2)
	s.Purge(latest, 3, 3)
	require.Equal(s.T, s.At(0), s.MarkOf("s"))
	s.Ack("s", two)
	require.Equal(s.T, s.At(2), s.MarkOf("s"))
	s.Finds("s", 0, 1)
	got := s.Next("s", two, 10)
	require.Equal(s.T, uint64(1), got.Purged)
	s.Ack("s", got)
	require.Equal(s.T, s.At(3), s.MarkOf("s"))
}

func purgeRefused(s *testChannel) {
	_, err := s.On("none").TryPurge(latest, ulid.ULID{})
	require.ErrorIs(s.T, err, channel.ErrNoChannel)
	s.Subscribe("s")
	s.Publish("a")
	_, err = s.TryPurge(s.upTo(2), ulid.ULID{})
	require.ErrorIs(s.T, err, channel.ErrThroughAhead)
	_, err = s.TryPurge(latest, ulid.MustParse("00000000000000000000000001"))
	require.ErrorIs(s.T, err, channel.ErrOtherLife)
	s.Finds("s", 0, 0, "a")
	_, err = s.TryPurge(latest, s.Position().Epoch)
	require.NoError(s.T, err)
	s.Finds("s", 0, 1)
}

// purgeAhead reads after positions, as streams and tails do.
func purgeAhead(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c", "d", "e")
	two := s.FetchUpTo("s", 2)
	s.Purge(s.upTo(4), 4, 4)
	r, after := s.Request("s", 10), s.ReceiptFor("s", two)
	r.After = &after
	for _, r := range []channel.FetchRequest{r, {Channel: s.Name, Tail: &latest, After: &after, Max: 10, MaxBytes: large,
		Policy: s.Policy}} {
		b := s.FetchWith(r)
		require.False(s.T, b.Lost)
		require.Equal(s.T, []string{"e"}, idsOf(b))
		require.Equal(s.T, [2]uint64{0, 2}, [2]uint64{b.Expired, b.Purged})
	}
}

func deleteCases() []testCase {
	return []testCase{
		{Name: "a channel is gone with its subscribers and messages", Clocks: true, Run: deleteAll},
		{Name: "message IDs may be used again, and once in the next life", Clocks: true, Run: deleteIDs},
		{Name: "receipts of the life before are refused", Clocks: true, Run: deleteReceipts},
		{Name: "a channel of any size", Run: deleteLarge},
		{Name: "a channel that doesn't exist", Run: func(s *testChannel) { s.DeleteLife(ulid.Make()) }},
		{Name: "a repeat deletes no later life", Clocks: true, Run: deleteLater},
		{Name: "a repeated deletion remembers the longest record", Run: deleteAgain},
		{Name: "a deletion is an event", Clocks: true, Run: deleteEvent},
	}
}

func deleteAll(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b")
	s.Purge(s.upTo(1), 1, 1)
	s.Delete()
	_, err := s.TryPosition()
	require.ErrorIs(s.T, err, channel.ErrNoChannel)
	_, err = s.TryDescribe()
	require.ErrorIs(s.T, err, channel.ErrNoChannel)
	s.NoSubscriber("s")
	for _, p := range []Part{mark("s"), message(s.At(2)), subscribers, epoch, purged} {
		require.Zero(s.T, s.Life(p), p)
	}
	s.Subscribe("s")
	s.Publish("c")
	b := s.Finds("s", 0, 0, "c")
	require.Equal(s.T, s.At(3), b.Through, "clocks aren't given out again")
	s.SubscribeFrom("earliest", earliest)
	s.Finds("earliest", 0, 0, "c")
}

func deleteIDs(s *testChannel) {
	s.Policy.MaxMessages = 2
	s.Publish("a", "b", "c", "d")
	s.Purge(s.upTo(3), 3, 1)
	old := s.Position().Epoch
	s.Delete()
	for i, p := range append(s.Publish("b"), s.Batch("a", "c", "a")...) {
		require.Equal(s.T, i == 3, p.Duplicate, "%d: %s", i, p.ID)
	}
	require.NotEqual(s.T, old, s.Position().Epoch)
	require.Equal(s.T, s.At(7), s.Position().Clock)
	require.Equal(s.T, s.At(7), s.Publish("c")[0].Clock, "it is a duplicate")
	require.False(s.T, s.Publish("d")[0].Duplicate)
}

func deleteReceipts(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b")
	b := s.Fetch("s")
	s.Delete()
	require.ErrorIs(s.T, s.TryAck(s.ReceiptFor("s", b)), channel.ErrNoSubscriber)
	s.Subscribe("s")
	s.Publish("c", "d")
	require.ErrorIs(s.T, s.TryAck(s.ReceiptFor("s", b)), channel.ErrReceiptEpoch)
	s.Finds("s", 0, 0, "c", "d")
}

func deleteLarge(s *testChannel) {
	for _, name := range names(450) {
		s.Subscribe(name)
	}
	s.Batch(numbered(1100)...)
	s.Delete()
	require.Zero(s.T, s.Life(message(1100)))
	require.Zero(s.T, s.Life(mark("s449")))
	require.Zero(s.T, s.Life(subscribers))
}

func deleteAgain(s *testChannel) {
	s.Publish("a")
	s.Delete()
	require.Greater(s.T, s.Life(deleted), ttl*95/100)
	s.Policy.TTL = time.Minute
	s.Publish("b")
	s.Delete()
	require.Greater(s.T, s.Life(deleted), ttl*95/100, "the record of a lives as long")
	require.False(s.T, s.Publish("a")[0].Duplicate)
}

func deleteLater(s *testChannel) {
	s.Publish("a")
	life := s.Position().Epoch
	s.DeleteLife(life)
	s.Subscribe("s")
	s.Publish("b")
	s.DeleteLife(life)
	s.Finds("s", 0, 0, "b")
}

func deleteEvent(s *testChannel) {
	s.Publish("a")
	l := s.Listen()
	l.Confirmed()
	at := s.Position()
	s.Delete()
	require.Equal(s.T, channel.Event{Kind: channel.EventDeleted, Position: at}, l.Next())
}

func seekCases() []testCase {
	return []testCase{
		{Name: "a mark is set forwards and backwards", Clocks: true, Run: seekTo},
		{Name: "a mark is never set before the oldest message", Clocks: true, Run: seekOldest},
		{Name: "a mark is set to a time", Clocks: true, Run: seekTime},
		{Name: "what can't be set is refused", Clocks: true, Run: seekRefused},
		{Name: "a mark that is set is an event, and renewed", Clocks: true, Run: seekEvent},
	}
}

// Seek sets a mark, and checks that it is at the n-th message since the start, with a lag.
func (s *testChannel) Seek(r channel.SeekRequest, n int, lag uint64) {
	s.T.Helper()
	got, err := s.TrySeek(r)
	require.NoError(s.T, err, "seek")
	want := channel.Sought{Position: channel.Position{Epoch: s.Position().Epoch, Clock: s.At(n)}, Lag: lag}
	require.Equal(s.T, want, got)
	require.Equal(s.T, s.At(n), s.MarkOf("s"))
}

// TrySeek sets the mark of s.
func (s *testChannel) TrySeek(r channel.SeekRequest) (channel.Sought, error) {
	r.Channel, r.Subscriber, r.Policy = s.Name, "s", s.Policy
	return s.Store.Seek(s.Ctx(), r)
}

func seekTo(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c", "d")
	s.Seek(channel.SeekRequest{To: latest}, 4, 0)
	s.Finds("s", 0, 0)
	s.Seek(channel.SeekRequest{To: s.upTo(1)}, 1, 3)
	s.Finds("s", 0, 0, "b", "c", "d")
	s.Seek(channel.SeekRequest{To: s.upTo(3)}, 3, 1)
	s.Seek(channel.SeekRequest{To: earliest}, 0, 4)
	s.Ack("s", s.Finds("s", 0, 0, "a", "b", "c", "d"))
	s.Seek(channel.SeekRequest{To: s.upTo(4)}, 4, 0)
}

func seekOldest(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c", "d", "e")
	below := channel.SeekRequest{To: channel.From{Start: channel.StartAt, Clock: s.Start.Sub(5)}}
	s.Seek(below, 0, 5)
	s.Finds("s", 0, 0, "a", "b", "c", "d", "e")
	s.ExpireMessages(1, 2)
	s.Purge(s.upTo(3), 3, 1)
	for _, to := range []channel.From{s.upTo(0), s.upTo(1), s.upTo(3), earliest} {
		s.Seek(channel.SeekRequest{To: to}, 3, 2)
	}
	s.Finds("s", 0, 0, "d", "e")
	s.ExpireMessages(4, 5)
	s.Seek(below, 5, 0)
	s.Finds("s", 0, 0)
}

func seekTime(s *testChannel) {
	s.Subscribe("s")
	s.Publish(numbered(9)...)
	all := s.Fetch("s").Messages
	for _, m := range all {
		first := slices.IndexFunc(all, func(o channel.Message) bool { return !o.PublishedAt.Before(m.PublishedAt) })
		s.Seek(channel.SeekRequest{Time: m.PublishedAt}, first, uint64(9-first))
	}
	s.Seek(channel.SeekRequest{Time: all[8].PublishedAt.Add(time.Millisecond)}, 9, 0)
	s.Seek(channel.SeekRequest{Time: time.Unix(1, 0)}, 0, 9)
	s.ExpireMessages(1, 4)
	s.Seek(channel.SeekRequest{Time: time.Unix(-1, 0)}, 4, 5)
}

func seekRefused(s *testChannel) {
	s.Publish("a")
	_, err := s.TrySeek(channel.SeekRequest{To: latest})
	require.ErrorIs(s.T, err, channel.ErrNoSubscriber)
	s.SubscribeFrom("s", earliest)
	_, err = s.TrySeek(channel.SeekRequest{To: s.upTo(2)})
	require.ErrorIs(s.T, err, channel.ErrToAhead)
	s.Finds("s", 0, 0, "a")
}

func seekEvent(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a")
	s.SetLife(ttl/2, mark("s"))
	l := s.Listen()
	l.Confirmed()
	s.Seek(channel.SeekRequest{To: latest}, 1, 0)
	require.Equal(s.T, channel.Event{Kind: channel.EventSought, Position: s.Position(), Subscriber: "s"}, l.Next())
	require.Greater(s.T, s.Life(mark("s")), ttl*95/100)
}

func listCases() []testCase {
	return []testCase{
		{Name: "the pages have all channels with a prefix", Run: listPages},
		{Name: "a list has the clock, the life and the number of subscribers", Run: listSummary},
		{Name: "cursors that aren't of a list are refused", Run: listCursors},
		{Name: "many channels are described as each of them is", Run: describeMany},
	}
}

// List returns all pages of the channels with a prefix.
func (s *testChannel) List(prefix string) (all []channel.Summary, pages int) {
	s.T.Helper()
	for cursor := ""; ; {
		page, err := s.Store.Channels(s.Ctx(), prefix, cursor)
		require.NoError(s.T, err)
		require.Less(s.T, len(page.Channels), 5000, "a page is bounded")
		all, pages = append(all, page.Channels...), pages+1
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	byName := func(a, b channel.Summary) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	}
	slices.SortFunc(all, byName)
	return slices.CompactFunc(all, func(a, b channel.Summary) bool { return a.Name == b.Name }), pages
}

func listPages(s *testChannel) {
	var want []string
	for i := range 700 {
		name := fmt.Sprintf("some.%03d", i)
		want = append(want, name)
		s.On(name).Publish("a")
	}
	s.On("other").Publish("a")
	s.On("som").Subscribe("r.clock") // its mark's key ends like that of a clock
	listed := func(prefix string) (names []string, pages int) {
		all, pages := s.List(prefix)
		for _, c := range all {
			names = append(names, c.Name)
		}
		return names, pages
	}
	got, pages := listed("some.")
	require.Equal(s.T, want, got)
	require.Greater(s.T, pages, 1)
	got, _ = listed("")
	require.Len(s.T, got, 702)
	got, _ = listed("some.12")
	require.Len(s.T, got, 10)
	got, _ = listed("nothing")
	require.Empty(s.T, got)
}

func listSummary(s *testChannel) {
	s.Subscribe("s")
	s.Subscribe("t")
	s.SetClock(clock.Max)
	s.Publish("a")
	all, _ := s.List("")
	require.Len(s.T, all, 1)
	require.Greater(s.T, all[0].TTL, ttl*95/100)
	all[0].TTL = 0
	require.Equal(s.T, channel.Summary{Name: s.Name, Clock: clock.Min, Subscribers: 2}, all[0])
}

func describeMany(s *testChannel) {
	var requests []channel.DescribeRequest
	for _, name := range []string{"a", "none", "b"} {
		requests = append(requests, channel.DescribeRequest{Channel: s.On(name).Name, Page: channel.Page{Limit: 10}})
	}
	a, b := s.On("a"), s.On("b")
	a.Subscribe("s")
	a.Publish("x")
	a.Publish("y")
	b.Publish("x")
	results := s.Store.DescribeMany(s.Ctx(), requests)
	require.Len(s.T, results, 3)
	require.NoError(s.T, results[0].Err)
	require.EqualValues(s.T, 2, results[0].Live)
	require.Len(s.T, results[0].Subscribers, 1)
	require.EqualValues(s.T, 2, results[0].Subscribers[0].Lag)
	require.ErrorIs(s.T, results[1].Err, channel.ErrNoChannel)
	require.NoError(s.T, results[2].Err)
	require.EqualValues(s.T, 1, results[2].Live)
	require.Empty(s.T, s.Store.DescribeMany(s.Ctx(), nil))
}

func listCursors(s *testChannel) {
	s.Publish("a")
	for _, cursor := range []string{"x", "1", "-1-x-0", "0-x-", "0-x-1x", "99999999999999999999-x-1"} {
		_, err := s.Store.Channels(s.Ctx(), "", cursor)
		require.ErrorIs(s.T, err, channel.ErrCursor, cursor)
	}
	page, err := s.Store.Channels(s.Ctx(), "", "0-0123-18446744073709551615")
	require.NoError(s.T, err, "of a process that has ended")
	require.LessOrEqual(s.T, len(page.Channels), 1)
}
