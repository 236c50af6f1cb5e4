package shardtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func oneHolder(s *subject) {
	_, err := s.try("h0", token("h0"))
	require.ErrorIs(s, err, shard.ErrNoLayout)
	l := s.split(0, 5)
	for i := range 5 {
		c := s.claim(fmt.Sprint("h", i))
		require.Equal(s, shard.Claimed{Shard: i, Interval: l.Interval(i), Generation: 1, Starts: l.Starts,
			Incarnation: c.Incarnation}, c)
	}
	require.LessOrEqual(s, s.held("spare", token("spare")), ttl)
	require.NotErrorIs(s, storagetest.ErrorOf(s.try("spare", token("spare"))), shard.ErrSameHost)
	s.pass(ttl / 2)
	for i := range 4 {
		require.NoError(s, s.ping(fmt.Sprint("h", i)))
	}
	require.LessOrEqual(s, s.held("spare", token("spare")), ttl/2, "until the first one ends")
}

func ownShard(s *subject) {
	s.split(0, 3)
	hosts := []string{"x", "y", "z"}
	for i, host := range hosts {
		require.Equal(s, i, s.claim(host).Shard)
	}
	s.leave("z", "y")
	s.pass(ttl)
	for _, host := range []string{"y", "z", "x"} {
		c, err := s.try(host, another(host, 2))
		require.NoError(s, err)
		require.Equal(s, hosts[c.Shard], host)
		s.pass(time.Minute)
	}
	s.pass(ttl)
	require.Equal(s, 1, s.claim("new").Shard)
	c, err := s.try("y", another("y", 3))
	require.NoError(s, err)
	require.Equal(s, 2, c.Shard, "another has its shard")
}

func longestUnpinged(s *subject) {
	s.split(0, 4)
	for i := range 3 {
		require.Equal(s, i, s.claim(fmt.Sprint("h", i)).Shard)
	}
	for _, host := range []string{"h1", "h2", "h0"} {
		s.pass(time.Minute)
		require.NoError(s, s.ping(host))
	}
	s.pass(ttl)
	for i, want := range []int{3, 1, 2, 0} { // first the shard that never had a holder
		require.Equal(s, want, s.claim(fmt.Sprint("new", i)).Shard)
	}
}

func claimTwice(s *subject) {
	s.split(0, 2)
	first := s.claim("x")
	s.claim("y")
	require.NoError(s, s.ping("x"))
	s.pass(ttl / 2)
	require.Equal(s, first, s.claim("x"))
	require.Equal(s, first, s.claim("x"))
	s.pass(ttl / 2)
	require.NoError(s, s.ping("x"), "a repeat renews")
	require.True(s, s.status().Shards[0].Loaded, "a repeat that arrives late leaves it loaded")
}

func endsByItself(s *subject) {
	s.split(0, 1)
	s.claim("x")
	s.held("y", token("y"))
	s.pass(ttl)
	require.ErrorIs(s, s.ping("x"), lease.ErrLost, "over, although nobody else has it")
	s.claim("y")
	require.ErrorIs(s, s.ping("x"), lease.ErrLost)
	require.ErrorIs(s, s.store.Leave(s.Context(), member("x"), token("x")), lease.ErrLost)
	require.NoError(s, s.ping("y"))
}

func pings(s *subject) {
	require.ErrorIs(s, s.ping("x"), lease.ErrLost, "never claimed")
	s.split(0, 1)
	c := s.claim("x")
	for range 3 {
		s.pass(ttl - time.Minute)
		require.NoError(s, s.ping("x"))
	}
	require.Greater(s, s.held("y", token("y")), ttl-time.Minute)
	require.Equal(s, c, s.claim("x"))
	s.leave("x")
	require.ErrorIs(s, s.ping("x"), lease.ErrLost, "left")
	require.ErrorIs(s, s.store.Ping(s.Context(), member("y"), token("y"), ttl, true), lease.ErrLost, "another host")
}

func oneToken(s *subject) {
	s.split(0, 3)
	s.claim("x")
	require.Greater(s, s.held("x", another("x", 2)), ttl-time.Minute)
	require.ErrorIs(s, storagetest.ErrorOf(s.try("x", another("x", 2))), shard.ErrSameHost)
	require.NoError(s, s.ping("x"))
	s.leave("x")
	_, err := s.try("x", another("x", 2))
	require.NoError(s, err)
	require.ErrorIs(s, s.ping("x"), lease.ErrLost)
	require.ErrorIs(s, s.store.Leave(s.Context(), member("x"), token("x")), lease.ErrLost)
	s.held("x", another("x", 3))
}

// lateRequests: each request of an expired token arrives once more.
func lateRequests(s *subject) {
	refused := func(host string) {
		s.Helper()
		_, err := s.try(host, token(host))
		require.ErrorIs(s, err, lease.ErrLost)
		require.ErrorIs(s, s.ping(host), lease.ErrLost)
	}
	s.split(0, 2)
	s.claim("x")
	s.leave("x")
	s.leave("x")
	refused("x")
	s.claim("y")
	refused("x")
	s.pass(ttl)
	refused("y")
	s.claim("z")
	refused("y")
	s.split(1, 2)
	require.ErrorIs(s, s.ping("z"), shard.ErrMoved)
	s.held("z", token("z"))
	s.leave("z")
	refusedBy := []error{s.ping("z"), storagetest.ErrorOf(s.try("z", token("z")))}
	for _, err := range refusedBy {
		require.ErrorIs(s, err, lease.ErrLost)
	}
	require.Empty(s, s.status().Former)
}

func apart(s *subject) {
	s.split(0, 1)
	s.claim("x")
	for _, m := range []shard.Member{{Cache: cache, DC: "b"}, {Cache: "topics", DC: dc}} {
		m.Host, m.Address = "x", "x:7100"
		_, err := s.store.Claim(s.Context(), m, token("x"), ttl, shard.Claimed{})
		require.ErrorIs(s, err, shard.ErrNoLayout)
		_, err = s.store.SetLayout(s.Context(), m.Cache, m.DC, 0, shard.Even(1))
		require.NoError(s, err)
		_, err = s.store.Claim(s.Context(), m, token("x"), ttl, shard.Claimed{})
		require.NoError(s, err)
		require.NoError(s, s.store.Leave(s.Context(), m, token("x")))
	}
	require.NoError(s, s.ping("x"))
}

func incarnations(s *subject) {
	var all []uint64
	claim := func(host string) {
		all = append(all, s.claim(host).Incarnation)
	}
	s.split(0, 2)
	claim("a")
	claim("b")
	s.pass(ttl)
	claim("c")
	s.pass(-24 * time.Hour)
	s.leave("c")
	claim("d")
	s.leave("d")
	s.pass(-24 * time.Hour)
	s.split(1, 1)
	s.held("e", token("e"))
	s.pass(2 * ttl)
	claim("e")
	require.IsIncreasing(s, all)
}

// clockSetBack: earlier pings are in the future afterwards.
func clockSetBack(s *subject) {
	s.split(0, 1)
	s.claim("x")
	s.pass(-24 * time.Hour)
	require.LessOrEqual(s, s.held("y", token("y")), ttl, "not for a day")
	s.pass(-24 * time.Hour)
	require.LessOrEqual(s, s.held("x", another("x", 2)), ttl, "nor the host itself")
	s.pass(ttl / 2)
	require.LessOrEqual(s, s.held("x", another("x", 2)), ttl/2)
	require.NoError(s, s.ping("x"), "alive")
	s.pass(-24 * time.Hour)
	require.LessOrEqual(s, s.status().Shards[0].Left, ttl)
	s.held("y", token("y"))
	s.pass(ttl)
	s.claim("y")

	s.pass(-24 * time.Hour)
	require.ErrorIs(s, s.ping("x"), lease.ErrLost, "it doesn't come back: another has had the shard since")
	require.NoError(s, s.ping("y"))
}

// lostClaims: a claim that may be lost has ended after the longest TTL at most.
func lostClaims(s *subject) {
	unsure := func(host, token string) time.Duration {
		s.Helper()
		require.ErrorIs(s, storagetest.ErrorOf(s.try(host, token)), shard.ErrUnsure)
		return s.held(host, token)
	}
	s.split(0, 4)
	x := s.claim("x")
	s.claim("y")
	require.Equal(s, 2, s.claim("z").Shard)
	s.leave("z")
	require.NoError(s, s.h.Lose(s.Context(), cache, dc, "lost"))
	require.NoError(s, s.ping("x"), "a claim that is known goes on")
	require.Equal(s, x, s.claim("x"))
	require.ErrorIs(s, storagetest.ErrorOf(s.try("y", another("y", 2))), shard.ErrSameHost)
	s.pass(ttl / 4)
	require.InDelta(s, ttl*3/4, unsure("z", another("z", 2)), float64(time.Minute),
		"others may have had its shard since; any claim begins the wait")
	require.InDelta(s, ttl*5/4, unsure("new", token("new")), float64(time.Minute),
		"it comes after those that had a shard")
	_, err := s.store.Claim(s.Context(), member("short"), token("short"), time.Minute, shard.Claimed{})
	require.ErrorIs(s, err, shard.ErrUnsure, "the longest TTL counts")
	s.pass(-24 * time.Hour)
	require.InDelta(s, ttl, unsure("z", another("z", 2)), float64(time.Minute), "not for a day")
	require.NoError(s, s.ping("x"))
	require.NoError(s, s.ping("y"))
	s.pass(ttl - time.Minute)
	unsure("z", another("z", 2))
	s.pass(time.Minute)
	_, err = s.try("z", another("z", 2))
	require.NoError(s, err)
	unsure("new", token("new"))
	s.pass(ttl / 2)
	s.claim("new")
}

// lostLayout: who had a shard restores the layout and gets the same shard, once all claims that were lost have ended.
func lostLayout(s *subject) {
	again := func(host string, last shard.Claimed) (shard.Claimed, error) {
		return s.store.Claim(s.Context(), member(host), another(host, 2), ttl, last)
	}
	unsure := func(host string, last shard.Claimed) {
		s.Helper()
		_, err := again(host, last)
		require.ErrorIs(s, err, shard.ErrUnsure)
	}
	s.split(0, 1)
	layout := s.split(1, 3)
	s.claim("x")
	y, z := s.claim("y"), s.claim("z")
	require.NoError(s, s.h.Clear(s.Context(), cache))
	require.ErrorIs(s, s.ping("y"), lease.ErrLost)
	require.ErrorIs(s, storagetest.ErrorOf(s.try("new", token("new"))), shard.ErrNoLayout, "it knows no layout")
	unsure("z", z)
	unsure("y", y)
	require.Equal(s, layout, s.status().Layout)
	s.pass(ttl)
	unsure("new", shard.Claimed{})
	for host, last := range map[string]shard.Claimed{"z": z, "y": y} {
		c, err := again(host, last)
		require.NoError(s, err)
		require.Greater(s, c.Incarnation, last.Incarnation)
		last.Incarnation = c.Incarnation
		require.Equal(s, last, c)
	}

	// An operator sets the layout before the nodes notice the loss.
	require.NoError(s, s.h.Clear(s.Context(), cache))
	s.split(0, 1)
	s.split(1, 3)
	unsure("z", z)
	unsure("y", y)
	s.pass(ttl)
	c, err := again("z", z)
	require.NoError(s, err)
	require.Equal(s, z.Shard, c.Shard)

	// A data centre that was removed stays so.
	s.pass(2 * ttl)
	require.NoError(s, s.store.Remove(s.Context(), cache, dc))
	require.ErrorIs(s, storagetest.ErrorOf(again("y", y)), shard.ErrNoLayout)
	s.split(0, 1)
	require.Zero(s, s.claim("y").Shard)
}

// newestLayout: nodes that had shards of several layouts restore the newest, whoever claims first. One that an operator
// has set stays, and so does one of which a shard was given out.
func newestLayout(s *subject) {
	unsure := func(host string, last shard.Claimed) {
		s.Helper()
		_, err := s.store.Claim(s.Context(), member(host), another(host, 2), ttl, last)
		require.ErrorIs(s, err, shard.ErrUnsure)
	}
	former := s.split(0, 1)
	x := s.claim("x")
	s.leave("x")
	layout := s.split(1, 3)
	y := s.claim("y")
	s.leave("y")
	newest := s.split(2, 2)
	z := s.claim("z")
	require.NoError(s, s.h.Clear(s.Context(), cache))
	for _, step := range []struct {
		host string
		last shard.Claimed
		want shard.Layout
	}{
		{"x", x, former}, {"y", y, layout}, {"x", x, layout}, {"z", z, newest}, {"y", y, newest},
	} {
		unsure(step.host, step.last)
		require.Equal(s, step.want, s.status().Layout, step.host)
	}
	s.pass(ttl)
	c, err := s.store.Claim(s.Context(), member("z"), another("z", 2), ttl, z)
	require.NoError(s, err)
	require.Equal(s, z.Shard, c.Shard)

	require.NoError(s, s.h.Clear(s.Context(), cache))
	unsure("x", x)
	s.pass(2 * ttl)
	s.claim("x")
	_, err = s.store.Claim(s.Context(), member("z"), another("z", 3), ttl, z)
	require.Error(s, err)
	require.Equal(s, former, s.status().Layout, "a shard of it was given out")

	require.NoError(s, s.h.Clear(s.Context(), cache))
	unsure("x", x)
	set := s.split(1, 4)
	unsure("z", z)
	unsure("z", z)
	require.Equal(s, set, s.status().Layout, "an operator has set it")
}

// exclusion lets many nodes compete for few shards.
func exclusion(s *subject) {
	const nodes, shards, runs = 8, 3, 5
	ctx, cancel := context.WithTimeout(s.Context(), storagetest.Patience)
	defer cancel()
	s.split(0, shards)
	var mu sync.Mutex
	inside, last := map[int]string{}, map[int]uint64{}
	var all sync.WaitGroup
	for n := range nodes {
		all.Go(func() {
			m := member(fmt.Sprint("h", n))
			for run := 0; run < runs; {
				c, err := s.store.Claim(ctx, m, another(m.Host, run), ttl, shard.Claimed{})
				if err != nil {
					if storagetest.Ignoring(err, lease.ErrHeld) != nil {
						s.Error(err)
						return
					}
					continue
				}
				mu.Lock()
				if inside[c.Shard] != "" || c.Incarnation <= last[c.Shard] {
					s.Errorf("%s and %s hold shard %d, incarnations %d and %d", m.Host, inside[c.Shard], c.Shard,
						c.Incarnation, last[c.Shard])
				}
				inside[c.Shard], last[c.Shard] = m.Host, c.Incarnation
				mu.Unlock()
				if err := s.store.Ping(s.Context(), m, another(m.Host, run), ttl, true); err != nil {
					s.Error(err)
				}
				mu.Lock()
				delete(inside, c.Shard)
				mu.Unlock()
				if err := s.store.Leave(s.Context(), m, another(m.Host, run)); err != nil {
					s.Error(err)
				}
				run++
			}
		})
	}
	all.Wait()
}
