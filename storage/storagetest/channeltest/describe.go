package channeltest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func describeCases() []testCase {
	return []testCase{
		{name: "subscribers whose marks have expired are dropped", run: describeVanished},
		{name: "subscribers come in pages", run: describePages},
		{name: "names without a mark don't accumulate", run: describeCount},
		{name: "a description has the rest of the channel's life", run: describeLife},
	}
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
			require.Equal(s.t, s.position(), d.Position, "each page has the channel's position")
			require.Equal(s.t, uint64(len(all)), d.Names)
			require.LessOrEqual(s.t, len(d.Subscribers), 3*limit+10, "a page is about as long as requested")
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

// describeCount expires all marks, again and again, without reading the list.
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
