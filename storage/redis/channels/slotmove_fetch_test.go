package channels

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
)

// halfMoved is a channel some of whose keys have moved.
type halfMoved struct {
	lore
	name   string
	about  string // for messages of failures
	subset int    // a bit for each of its parts: this one moves
}

// everySubset returns a channel for each subset of each lore's parts, all in the slot of the first one.
func everySubset(c storetest.TwoNodes, s *Store, first string, all map[string]lore) []halfMoved {
	var list []halfMoved
	for about, l := range all {
		for subset := range 1 << len(l.parts(s, "x")) {
			list = append(list, halfMoved{lore: l, about: about + ", subset " + strconv.FormatInt(int64(subset), 2),
				subset: subset})
		}
	}
	for i, name := range c.SameSlot(first, len(list)) {
		list[i].name = name
	}
	return list
}

// move moves the subset.
func (h halfMoved) move(t *testing.T, s *Store, moveKey func(testing.TB, string)) {
	t.Helper()
	for bit, key := range h.parts(s, h.name) {
		if h.subset&(1<<bit) != 0 {
			moveKey(t, key)
		}
	}
}

// A fetch returns the same, whichever of the channel's keys have moved.
func fetchWithEverySubsetMoved(t *testing.T, c storetest.TwoNodes) {
	t.Helper()
	s := openOn(t, c, redis.Options{})
	all := everySubset(c, s, "fetch", map[string]lore{
		"nothing new":            {},
		"one message":            {messages: 1},
		"three messages":         {messages: 3},
		"the last one only":      {messages: 3, expired: []int{1, 2}},
		"a gap":                  {messages: 3, expired: []int{2}},
		"all gone":               {messages: 3, expired: []int{1, 2, 3}},
		"a damaged one":          {messages: 3, damaged: 2},
		"only a damaged one":     {messages: 1, damaged: 1},
		"one at a time":          {messages: 2, max: 1},
		"the channel keeps one":  {messages: 2, keeps: 1},
		"across the wrap":        {start: clock.Max - 1, messages: 3},
		"gone across the wrap":   {start: clock.Max - 20, messages: 23, expired: upTo(22)},
		"ahead of the mark":      {messages: 3, ahead: 1},
		"ahead, after a gap":     {messages: 2, expired: upTo(1), ahead: 1},
		"a long way to the rest": {messages: 40, expired: upTo(38)},
		"the latest":             {messages: 2, tail: &channel.From{}},
		"the earliest":           {messages: 3, expired: upTo(1), tail: &channel.From{Start: channel.StartEarliest}},
		"the earliest of none":   {messages: 1, expired: upTo(1), tail: &channel.From{Start: channel.StartEarliest}},
		"the earliest, few kept": {messages: 3, keeps: 2, tail: &channel.From{Start: channel.StartEarliest}},
		"from a clock":           {messages: 3, expired: upTo(2), tail: &channel.From{Start: channel.StartAt, Clock: 1}},
		"a tail continues":       {messages: 2, ahead: 1, tail: &channel.From{}},
	})
	want := make([]channel.Batch, len(all))
	for i, h := range all {
		all[i].epoch = h.make(t, s, c.Direct, h.name)
		want[i] = fetchOnce(t, s, all[i])
	}
	m := c.OpenMove(t, "fetch")
	for _, h := range all {
		h.move(t, s, m.MoveKey)
	}
	for i, h := range all {
		require.Equal(t, want[i], fetchOnce(t, s, h), h.about)
	}
	fetchTogether(t, s, all, want)
	m.CloseSlot(t)
	for i, h := range all {
		got := fetchOnce(t, s, h)
		require.Equal(t, want[i], got, h.about)
		require.NoError(t, s.Ack(t.Context(), channel.AckRequest{Receipt: receiptOf(h.name, got), Policy: h.policy()}),
			h.about)
	}
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i + 1
	}
	return list
}

func fetchOnce(t *testing.T, s *Store, h halfMoved) channel.Batch {
	t.Helper()
	b, err := s.Fetch(t.Context(), h.fetch(h.name))
	require.NoError(t, err, h.about)
	return b
}

// Channels and subscribers that don't exist are reported as not found while the slot is half moved.
func fetchOfNobody(t *testing.T, c storetest.TwoNodes) {
	t.Helper()
	s := openOn(t, c, redis.Options{})
	lore{messages: 1}.make(t, s, c.Direct, "nobody")
	m := c.OpenMove(t, "nobody")
	for m.MoveKeys(t, 1) > 0 {
		r := lore{}.fetch("nobody")
		r.Subscriber = "somebody"
		_, err := s.Fetch(t.Context(), r)
		require.ErrorIs(t, err, channel.ErrNoSubscriber)
		at, err := s.Position(t.Context(), "nobody")
		require.NoError(t, err)
		require.EqualValues(t, 1, at.Clock)
	}
	m.CloseSlot(t)
}

// fetchTogether fetches from all of these channels at once, and polls them.
func fetchTogether(t *testing.T, s *Store, all []halfMoved, want []channel.Batch) {
	t.Helper()
	fetches, polls := make([]channel.FetchRequest, len(all)), make([]channel.PollRequest, len(all))
	for i, h := range all {
		fetches[i] = h.fetch(h.name)
		h.tail = nil
		polls[i] = channel.PollRequest{FetchRequest: h.fetch(h.name)}
		polls[i].Wait = time.Second
	}
	const together = 64 // a channel of a half-moved slot takes calls of its own, and all have one time limit
	for first := 0; first < len(fetches); first += together {
		for j, got := range s.FetchEach(t.Context(), fetches[first:min(first+together, len(fetches))]) {
			require.NoError(t, got.Err, all[first+j].about)
			require.Equal(t, want[first+j], got.Batch, all[first+j].about)
		}
	}
	for i, got := range s.Poll(t.Context(), polls) {
		at := channel.Position{Epoch: want[i].Epoch, Clock: want[i].Clock}
		require.Equal(t, channel.PollResult{Position: at, Mark: all[i].start, Due: got.Due}, got, all[i].about)
	}
}
