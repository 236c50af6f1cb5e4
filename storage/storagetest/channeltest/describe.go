package channeltest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func describeCases() []testCase {
	return []testCase{
		{
			name: "a channel that doesn't exist isn't described", run: describeNothing,
			notice: "asking for a channel makes it, or a missing one looks empty",
		},
		{
			name: "a description tells clock, oldest message and lags", ring: true, run: describeAll,
			notice: "monitoring shows wrong lags or a wrong number of messages",
		},
		{
			name: "a description leaves out what has expired", ring: true, run: describeExpired,
			notice: "monitoring shows messages that nobody can read",
		},
		{
			name: "subscribers whose marks have expired are dropped", run: describeVanished,
			notice: "monitoring shows growing lags of subscribers that are long gone",
		},
		{
			name: "subscribers come in pages", run: describePages,
			notice: "looking at a channel with many subscribers makes everybody else wait, or leaves some out",
		},
		{
			name: "names without a mark don't pile up", run: describeCount,
			notice: "a channel whose subscribers come and go counts more and more of them",
		},
		{
			name: "a description tells what is left of the channel's life", run: describeLife,
			notice: "nobody can tell when a channel ends",
		},
	}
}

func describeNothing(s *subject) {
	for range 2 {
		_, err := s.tryDescribe()
		require.ErrorIs(s.t, err, channel.ErrNoChannel)
		_, err = s.readPosition()
		require.ErrorIs(s.t, err, channel.ErrNoChannel)
	}
}

func describeAll(s *subject) {
	s.subscribe("b")
	d := s.describe()
	require.Equal(s.t, s.position(), d.Position)
	require.Zero(s.t, d.Live)
	require.Equal(s.t, []channel.SubscriberLag{{Name: "b", Mark: s.at(0)}}, d.Subscribers)

	s.publish("m1", "m2", "m3")
	s.subscribe("c")
	s.subscribe("a")
	s.publish("m4", "m5")
	s.ack("b", s.fetchUpTo("b", 1))
	s.ack("c", s.fetch("c"))
	d = s.describe()
	require.Equal(s.t, s.at(5), d.Clock)
	require.Equal(s.t, s.at(1), d.Oldest)
	require.Equal(s.t, uint64(5), d.Live)
	require.Equal(s.t, []channel.SubscriberLag{
		{Name: "a", Mark: s.at(3), Lag: 2},
		{Name: "b", Mark: s.at(1), Lag: 4},
		{Name: "c", Mark: s.at(5), Lag: 0},
	}, d.Subscribers, "by name")
	require.Equal(s.t, s.position(), d.Position)
}

func describeExpired(s *subject) {
	s.subscribe("s")
	s.batch(numbered(40)...)
	expired := 0
	for _, n := range []int{1, 7, 8, 9, 16, 31, 38, 39} {
		s.expireMessages(expired+1, n)
		expired = n
		d := s.describe()
		require.Equal(s.t, uint64(40-n), d.Live)
		require.Equal(s.t, s.at(n+1), d.Oldest)
		require.Equal(s.t, uint64(40), d.Subscribers[0].Lag, "a lag counts what has expired too")
	}
	s.expireMessages(40, 40)
	require.Zero(s.t, s.describe().Live)
}

func describeVanished(s *subject) {
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		s.subscribe(name)
	}
	s.expire(mark("a"), mark("c"))
	for range 2 {
		var listed []string
		for _, sub := range s.describe().Subscribers {
			listed = append(listed, sub.Name)
		}
		require.Equal(s.t, "b d", strings.Join(listed, " "))
	}
	s.subscribe("c")
	require.Len(s.t, s.describe().Subscribers, 3)
	s.expire(mark("b"), mark("c"), mark("d"))
	require.Empty(s.t, s.describe().Subscribers)
	require.Zero(s.t, s.life(subscribersPart), "the list of no subscribers takes no memory")
}

func describeLife(s *subject) {
	s.publish("a")
	d := s.describe()
	require.Greater(s.t, d.TTL, ttl*95/100)
	require.LessOrEqual(s.t, d.TTL, ttl)
	s.setLife(ttl/2, clockPart, epochPart)
	d = s.describe()
	require.Greater(s.t, d.TTL, ttl/4)
	require.LessOrEqual(s.t, d.TTL, ttl/2)
}

// names returns n names of subscribers.
func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("s%d", i)
	}
	return list
}

func describePages(s *subject) {
	all := names(700)
	for _, name := range all {
		s.subscribe(name)
	}
	for _, limit := range []int{1, 10, channel.MaxPage} {
		r := channel.DescribeRequest{Channel: s.channel, Page: channel.Page{Limit: limit}, Policy: s.policy}
		listed := map[string]bool{}
		for more := true; more; more = r.Page.Cursor != 0 {
			d, err := s.store.Describe(s.ctx(), r)
			require.NoError(s.t, err)
			require.Equal(s.t, s.position(), d.Position, "each page tells of the channel")
			require.Equal(s.t, uint64(len(all)), d.Names)
			require.LessOrEqual(s.t, len(d.Subscribers), 3*limit+10, "a page is about as long as was asked for")
			for _, sub := range d.Subscribers {
				listed[sub.Name] = true
			}
			r.Page.Cursor = d.Next
		}
		require.Len(s.t, listed, len(all), "all pages together have every subscriber")
	}
	any := channel.DescribeRequest{Channel: s.channel, Page: channel.Page{Cursor: 1<<64 - 1, Limit: 1}, Policy: s.policy}
	_, err := s.store.Describe(s.ctx(), any)
	require.NoError(s.t, err, "any cursor does no harm")
}

// describeCount lets all subscribers go, again and again, and asks for none.
func describeCount(s *subject) {
	const many = 400
	for round := range 5 {
		var marks []Part
		for _, name := range names(many) {
			name += fmt.Sprint("-", round)
			s.subscribe(name)
			marks = append(marks, mark(name))
		}
		s.expire(marks[0], marks[1:]...)
	}
	d, err := s.store.Describe(s.ctx(), channel.DescribeRequest{
		Channel: s.channel, Page: channel.Page{Limit: 1}, Policy: s.policy,
	})
	require.NoError(s.t, err)
	require.LessOrEqual(s.t, d.Names, uint64(2*many))
}
