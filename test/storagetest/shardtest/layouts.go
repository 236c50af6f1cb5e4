package shardtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func layouts(s *subject) {
	set := func(generation uint64, starts ...uint64) error {
		return storagetest.ErrorOf(s.store.SetLayout(s.Context(), cache, dc, generation, starts))
	}
	found, err := s.store.Status(s.Context(), cache)
	require.NoError(s, err)
	require.Empty(s, found)
	require.ErrorIs(s, set(1, 0), shard.ErrChanged)
	require.ErrorIs(s, set(0, 1), shard.ErrLayout)
	s.split(0, 4)
	s.split(0, 4) // again, as after a lost reply
	require.ErrorIs(s, set(0, 0), shard.ErrChanged)
	require.ErrorIs(s, set(2, 0), shard.ErrChanged)
	require.NoError(s, set(1, 0, 7, 1<<63))
	require.Equal(s, shard.Layout{Generation: 2, Starts: []uint64{0, 7, 1 << 63}}, s.status().Layout)
	require.Equal(s, shard.Interval{First: 0, Last: 6}, s.claim("x").Interval)
	require.Equal(s, shard.Interval{First: 7, Last: 1<<63 - 1}, s.claim("y").Interval)
	require.Equal(s, shard.Interval{First: 1 << 63, Last: 1<<64 - 1}, s.claim("z").Interval)
}

func formerHolders(s *subject) {
	s.split(0, 2)
	s.claim("x")
	s.claim("y")
	s.split(1, 3)
	require.ErrorIs(s, s.ping("x"), shard.ErrMoved)
	s.held("new", token("new"))
	require.Len(s, s.status().Former, 2)
	require.ErrorIs(s, storagetest.ErrorOf(s.store.SetLayout(s.Context(), cache, dc, 2, shard.Even(5))), shard.ErrInUse)
	s.leave("x")
	s.pass(ttl / 2)
	require.LessOrEqual(s, s.held("new", token("new")), ttl/2, "until the last one ends")
	require.ErrorIs(s, s.ping("y"), shard.ErrMoved, "and it isn't prolonged")
	s.pass(ttl / 2)
	require.Equal(s, 0, s.claim("new").Shard)
	require.ErrorIs(s, s.ping("y"), shard.ErrMoved)
	require.Empty(s, s.status().Former)
	c, err := s.try("y", another("y", 2))
	require.NoError(s, err)
	require.Equal(s, 1, c.Shard)
	s.split(2, 1)
	require.Len(s, s.status().Former, 2)
}

func removal(s *subject) {
	require.NoError(s, s.store.Remove(s.Context(), cache, dc))
	s.split(0, 2)
	s.claim("x")
	require.ErrorIs(s, s.store.Remove(s.Context(), cache, dc), shard.ErrInUse)
	s.split(1, 1)
	require.ErrorIs(s, s.store.Remove(s.Context(), cache, dc), shard.ErrInUse)
	s.leave("x")
	for range 2 {
		require.NoError(s, s.store.Remove(s.Context(), cache, dc))
	}
	found, err := s.store.Status(s.Context(), cache)
	require.NoError(s, err)
	require.Empty(s, found)
	require.ErrorIs(s, storagetest.ErrorOf(s.try("x", another("x", 2))), shard.ErrNoLayout)
	s.split(0, 1)
	s.claim("x")
}

func watchers(s *subject) {
	watch := func() (<-chan struct{}, func()) {
		return storagetest.Watch(s, func(freed func()) (stop func()) { return s.store.Watch(cache, dc, freed) })
	}
	stopped, stop := watch()
	stop()
	first, _ := watch()
	second, _ := watch()
	for _, change := range []func(){
		func() { s.split(0, 1) },
		func() { s.claim("x"); s.leave("x") },
		func() { require.NoError(s, s.store.Remove(s.Context(), cache, dc)) },
	} {
		change()
		storagetest.Await(s, first)
		storagetest.Await(s, second)
	}
	require.Empty(s, stopped)
}

func status(s *subject) {
	s.split(0, 3)
	before := s.claim("x").Incarnation
	c := s.claim("y")
	require.NoError(s, s.ping("y"))
	s.leave("x")
	got := s.status()
	require.False(s, got.Whole())
	x, y := got.Shards[0], got.Shards[1]
	require.Equal(s, shard.Holder{Generation: 1, Shard: 2}, got.Shards[2])
	require.Equal(s, shard.Holder{
		Generation: 1, Host: "x", Address: "x:7100", Incarnation: before, Locked: x.Locked, Pinged: x.Pinged,
	}, x)
	require.InDelta(s, ttl, y.Left, float64(time.Minute))
	require.False(s, y.Pinged.Before(y.Locked))
	require.InDelta(s, time.Now().Unix(), y.Locked.Unix(), 60)
	y.Left = 0
	require.Equal(s, shard.Holder{
		Shard: 1, Generation: 1, Host: "y", Address: "y:7100", Incarnation: c.Incarnation, Locked: y.Locked,
		Pinged: y.Pinged, Loaded: true,
	}, y)
	s.leave("y")
	for _, host := range []string{"p", "q", "r"} {
		s.claim(host)
		require.False(s, s.status().Whole())
		require.NoError(s, s.ping(host))
	}
	require.True(s, s.status().Whole())
	require.Equal(s, []string{"q", "r", "p"}, []string{s.status().Shards[0].Host, s.status().Shards[1].Host,
		s.status().Shards[2].Host})
}

func hosts(s *subject) {
	list := s.store.Hosts(cache)
	require.Empty(s, s.listed(list))
	s.split(0, 2)
	require.Empty(s, s.listed(list))
	s.claim("x")
	s.claim("y")
	b := shard.Member{Cache: cache, DC: "b", Host: "x", Address: "[::1]:7100"}
	_, err := s.store.SetLayout(s.Context(), cache, b.DC, 0, shard.Even(1))
	require.NoError(s, err)
	_, err = s.store.Claim(s.Context(), b, "t", ttl, shard.Claimed{})
	require.NoError(s, err)
	want := []shard.Host{{Address: "x:7100", DC: dc}, {Address: "y:7100", DC: dc}, {Address: b.Address, DC: b.DC}}
	require.ElementsMatch(s, want, s.listed(list))
	s.split(1, 1)
	require.ElementsMatch(s, want, s.listed(list), "former holders may still be asked")
	s.leave("x")
	s.pass(ttl)
	require.Equal(s, want[2:], s.listed(list))
}

func (s *subject) listed(list shard.Hosts) []shard.Host {
	s.Helper()
	found, err := list.Hosts(s.Context())
	require.NoError(s, err)
	return found
}

func bounds(s *subject) {
	l := s.split(0, shard.MaxShards)
	for i := range shard.MaxShards {
		require.Equal(s, l.Interval(i), s.claim(fmt.Sprint("h", i)).Interval)
	}
	s.held("spare", token("spare"))
	require.Equal(s, "h1023", s.status().Shards[shard.MaxShards-1].Host)
	require.Len(s, s.listed(s.store.Hosts(cache)), shard.MaxShards)
	for i := 1; i <= shard.MaxDCs; i++ {
		_, err := s.store.SetLayout(s.Context(), cache, fmt.Sprint("dc", i), 0, shard.Even(1))
		if i < shard.MaxDCs {
			require.NoError(s, err)
			continue
		}
		require.ErrorIs(s, err, shard.ErrTooManyDCs)
	}
	s.pass(2 * ttl)
	s.split(1, 1)
	found, err := s.store.Status(s.Context(), cache)
	require.NoError(s, err)
	require.Len(s, found, shard.MaxDCs)
	for i := range 3 { // as after crashes of a node whose host has a new name each time
		require.Equal(s, 0, s.claim(fmt.Sprint("crash", i)).Shard)
		s.pass(ttl)
	}
}

func names(s *subject) {
	s.split(0, 1)
	long := strings.Repeat("x", 64)
	require.NoError(s,
		storagetest.ErrorOf(s.store.Claim(s.Context(), shard.Member{Cache: cache, DC: dc, Host: long,
			Address: "[::1]:7100"}, long, ttl, shard.Claimed{})))
	for _, bad := range []string{"", "a b", "a}", "{a", "a\n", "-a", "é", long + "x"} {
		for _, m := range []shard.Member{
			{Cache: bad, DC: dc, Host: "x", Address: "x:1"}, {Cache: cache, DC: bad, Host: "x", Address: "x:1"},
			{Cache: cache, DC: dc, Host: bad, Address: "x:1"},
		} {
			require.ErrorIs(s, s.everything(m, "t"), shard.ErrName, "%q", m)
		}
		_, err := s.store.Status(s.Context(), bad)
		require.ErrorIs(s, err, shard.ErrName)
		_, err = s.store.Hosts(bad).Hosts(s.Context())
		require.ErrorIs(s, err, shard.ErrName)
		for _, at := range [][2]string{{bad, dc}, {cache, bad}} {
			require.ErrorIs(s, storagetest.ErrorOf(s.store.SetLayout(s.Context(), at[0], at[1], 0, shard.Even(1))),
				shard.ErrName)
			require.ErrorIs(s, s.store.Remove(s.Context(), at[0], at[1]), shard.ErrName)
		}
	}
	for _, bad := range []string{"", "a b", "a\n", "é", strings.Repeat("x", 321)} {
		require.ErrorIs(s, s.everything(shard.Member{Cache: cache, DC: dc, Host: "x", Address: bad}, "t"),
			shard.ErrName)
		require.ErrorIs(s, s.everything(member("x"), bad), shard.ErrName)
	}
	for _, bad := range []time.Duration{0, -1, time.Microsecond, 1 << 62} {
		require.Error(s, storagetest.ErrorOf(s.store.Claim(s.Context(), member("x"), "t", bad, shard.Claimed{})))
		require.Error(s, s.store.Ping(s.Context(), member("x"), "t", bad, true))
	}
}

// everything makes each call of a member. Ping and Leave must fail with shard.ErrName. It returns the error of Claim.
func (s *subject) everything(m shard.Member, token string) error {
	s.Helper()
	_, err := s.store.Claim(s.Context(), m, token, ttl, shard.Claimed{})
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error { return s.store.Ping(ctx, m, token, ttl, true) },
		func(ctx context.Context) error { return s.store.Leave(ctx, m, token) },
	} {
		require.ErrorIs(s, call(s.Context()), shard.ErrName)
	}
	return err
}
