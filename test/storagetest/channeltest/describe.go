package channeltest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func describeCases() []testCase {
	return []testCase{
		{Name: "subscribers whose marks have expired are dropped", Run: describeVanished},
		{Name: "subscribers come in pages", Run: describePages},
		{Name: "names without a mark don't accumulate", Run: describeCount},
		{Name: "a description has the rest of the channel's life", Run: describeLife},
	}
}

func describeVanished(s *testChannel) {
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		s.Subscribe(name)
	}
	s.Expire(mark("a"), mark("c"))
	for range 2 {
		var listed []string
		for _, sub := range s.Describe().Subscribers {
			listed = append(listed, sub.Name)
		}
		require.Equal(s.T, "b d", strings.Join(listed, " "))
	}
	s.Subscribe("c")
	require.Len(s.T, s.Describe().Subscribers, 3)
	s.Expire(mark("b"), mark("c"), mark("d"))
	require.Empty(s.T, s.Describe().Subscribers)
	require.Zero(s.T, s.Life(subscribers), "the list of no subscribers takes no memory")
}

func describeLife(s *testChannel) {
	s.Publish("a")
	d := s.Describe()
	require.Greater(s.T, d.Remaining, ttl*95/100)
	require.LessOrEqual(s.T, d.Remaining, ttl)
	s.SetLife(ttl/2, channelClock, epoch)
	d = s.Describe()
	require.Greater(s.T, d.Remaining, ttl/4)
	require.LessOrEqual(s.T, d.Remaining, ttl/2)
}

// names returns n names of subscribers.
func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("s%d", i)
	}
	return list
}

func describePages(s *testChannel) {
	all := names(700)
	for _, name := range all {
		s.Subscribe(name)
	}
	for _, limit := range []int{1, 10, channel.MaxPage} {
		r := channel.DescribeRequest{Channel: s.Name, Page: channel.Page{Limit: limit}, Policy: s.Policy}
		listed := map[string]bool{}
		for more := true; more; more = r.Page.Cursor != 0 {
			d, err := s.Store.Describe(s.Ctx(), r)
			require.NoError(s.T, err)
			require.Equal(s.T, s.Position(), d.Position, "each page has the channel's position")
			require.Equal(s.T, uint64(len(all)), d.Names)
			require.LessOrEqual(s.T, len(d.Subscribers), 3*limit+10, "a page is about as long as requested")
			for _, sub := range d.Subscribers {
				listed[sub.Name] = true
			}
			r.Page.Cursor = d.Next
		}
		require.Len(s.T, listed, len(all), "all pages together have every subscriber")
	}
	any := channel.DescribeRequest{Channel: s.Name, Page: channel.Page{Cursor: 1<<64 - 1, Limit: 1}, Policy: s.Policy}
	_, err := s.Store.Describe(s.Ctx(), any)
	require.NoError(s.T, err, "any cursor does no harm")
}

// describeCount expires all marks, again and again, without reading the list.
func describeCount(s *testChannel) {
	const many = 400
	for round := range 5 {
		var marks []Part
		for _, name := range names(many) {
			name += fmt.Sprint("-", round)
			s.Subscribe(name)
			marks = append(marks, mark(name))
		}
		s.Expire(marks[0], marks[1:]...)
	}
	d, err := s.Store.Describe(s.Ctx(), channel.DescribeRequest{
		Channel: s.Name, Page: channel.Page{Limit: 1}, Policy: s.Policy,
	})
	require.NoError(s.T, err)
	require.LessOrEqual(s.T, d.Names, uint64(2*many))
}
