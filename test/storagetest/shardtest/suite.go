// Package shardtest is the conformance suite of shard.Claims and shard.Layouts. Start from [Run].
package shardtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// ttl is so long that no claim ends by itself while a case runs: time passes by Harness.Pass.
const ttl = time.Hour

// Store is the interface of a store of shards.
type Store interface {
	shard.Claims
	shard.Layouts
	Hosts(cache string) shard.Hosts
}

// Harness is a store for a single case, with direct access to its data.
type Harness interface {
	// Store returns the store.
	Store() Store
	// Pass moves the holders of a data centre into the past. A negative time has the effect of setting the store's
	// clock back.
	Pass(ctx context.Context, cache, dc string, d time.Duration) error
	// Lose makes the store lose the claims of a host, and possibly others, as in a fail-over.
	Lose(ctx context.Context, cache, dc, host string) error
	// Clear makes the store lose everything of a cache.
	Clear(ctx context.Context, cache string) error
}

var cases = []storagetest.Case[*subject]{
	{Name: "a shard has one holder", Notice: "two nodes answer for a shard", Run: oneHolder},
	{Name: "a host gets the shard that it had", Notice: "a node that restarts loads another shard", Run: ownShard},
	{Name: "the shard that was pinged the longest time ago is next",
		Notice: "a shard has no holder although nodes are free", Run: longestUnpinged},
	{Name: "a repeat is the same claim", Notice: "a lost reply makes a shard unusable for its TTL", Run: claimTwice},
	{Name: "a claim ends by itself", Notice: "a node that dies keeps its shard", Run: endsByItself},
	{Name: "a ping prolongs a claim", Notice: "a node loses the shard that it pings", Run: pings},
	{Name: "a host has one token", Notice: "two processes with one host name share a shard", Run: oneToken},
	{Name: "a token has one shard", Notice: "a request that arrives late gives a node a shard that it doesn't know of",
		Run: lateRequests},
	{Name: "data centres and caches are apart", Notice: "a cache takes the shards of another", Run: apart},
	{Name: "a layout is set by who knows the last one", Notice: "two operators overwrite each other's layouts",
		Run: layouts},
	{Name: "holders of the last layout come first",
		Notice: "two nodes answer for a key while a data centre is split anew", Run: formerHolders},
	{Name: "a data centre without holders can be removed", Notice: "a data centre that is gone stays in the list",
		Run: removal},
	{Name: "watchers are notified", Notice: "a waiting node waits for the end of a claim that was left", Run: watchers},
	{Name: "incarnations rise", Notice: "a client believes an earlier holder", Run: incarnations},
	{Name: "the clock is set back", Notice: "a node that died keeps its shard for as long as the clock was set back",
		Run: clockSetBack},
	{Name: "claims may be lost", Notice: "after a fail-over two nodes answer for a shard", Run: lostClaims},
	{Name: "everything may be lost", Notice: "nodes wait for good for a layout that they know", Run: lostLayout},
	{Name: "the newest layout that a node knows is restored",
		Notice: "after a loss of everything a node that was cut off brings back a former layout", Run: newestLayout},
	{Name: "the status shows who holds what", Notice: "an operator can't see what is missing", Run: status},
	{Name: "hosts are those that hold shards", Notice: "clients ask nodes that are gone", Run: hosts},
	{Name: "bounds", Notice: "somebody fills the store", Run: bounds},
	{Name: "names are checked", Notice: "a name reaches keys of others", Run: names},
	{Name: "holders exclude each other", Notice: "two nodes answer for a shard", Run: exclusion},
	{Name: "any order of requests, ends and jumps of the clock", Notice: "two nodes answer for a key", Run: anyOrder},
}

// Run runs all cases of a store of shards as parallel subtests of t, each on a harness of its own.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	storagetest.Run(t, cases, func(t testing.TB) *subject {
		h := open(t)
		return &subject{TB: t, h: h, store: h.Store()}
	})
}

// subject is a store, with the calls that cases make. An unexpected error fails the case.
type subject struct {
	testing.TB
	h     Harness
	store Store
}

// The cache and the data centre of most cases.
const (
	cache = "authors"
	dc    = "a"
)

// member returns the node of a host, and token its process.
func member(host string) shard.Member {
	return shard.Member{Cache: cache, DC: dc, Host: host, Address: host + ":7100"}
}

func token(host string) string { return "token-of-" + host }

// split sets a layout of even shards.
func (s *subject) split(generation uint64, shards int) shard.Layout {
	s.Helper()
	l, err := s.store.SetLayout(s.Context(), cache, dc, generation, shard.Even(shards))
	require.NoError(s, err)
	require.Equal(s, shard.Layout{Generation: generation + 1, Starts: shard.Even(shards)}, l)
	return l
}

func (s *subject) try(host, token string) (shard.Claimed, error) {
	return s.store.Claim(s.Context(), member(host), token, ttl, shard.Claimed{})
}

// claim claims a shard for the first process of a host.
func (s *subject) claim(host string) shard.Claimed {
	s.Helper()
	c, err := s.try(host, token(host))
	require.NoError(s, err)
	return c
}

// held returns the time that a refused claim tells a host to wait.
func (s *subject) held(host, token string) time.Duration {
	s.Helper()
	_, err := s.try(host, token)
	var held *lease.HeldError
	require.ErrorAs(s, err, &held)
	require.Positive(s, held.For)
	return held.For
}

func (s *subject) ping(host string) error {
	return s.store.Ping(s.Context(), member(host), token(host), ttl, true)
}

func (s *subject) leave(hosts ...string) {
	s.Helper()
	for _, host := range hosts {
		require.NoError(s, s.store.Leave(s.Context(), member(host), token(host)))
	}
}

func (s *subject) pass(d time.Duration) {
	s.Helper()
	require.NoError(s, s.h.Pass(s.Context(), cache, dc, d))
}

// status returns the data centre.
func (s *subject) status() shard.DC {
	s.Helper()
	found, err := s.store.Status(s.Context(), cache)
	require.NoError(s, err)
	require.Len(s, found, 1)
	require.Equal(s, dc, found[0].Name)
	return found[0]
}

// another returns the name of a process that a host hasn't had before.
func another(host string, n int) string { return fmt.Sprintf("token-%d-of-%s", n, host) }
