package main

import (
	"regexp"
	"slices"
)

// scenario is a fault, and its permitted effects on clients.
type scenario struct {
	name     string
	fault    string // description for the table
	redis    redisSetup
	flags    []string // additional options of the services
	proxied  link     // where a proxy is
	balanced bool     // clients leave a service that is not ready, as behind a load balancer
	previous bool     // the services begin as the previous release
	failover bool     // Redis may lose its last writes, see oracle.Rules
	players  int      // factor for the number of players; 0: 1
	repeated bool     // many publishers and slow subscribers of each channel
	limits   limits

	// inject causes the fault while the load runs, and returns when it is over.
	inject func(s *stage)
}

// redisSetup is how Redis runs.
type redisSetup struct {
	layout layout
	args   []string
	binary func(s *stage) string // nil: redis-server
}

type layout int

const (
	standalone layout = iota // with the append-only file
	cluster                  // three primaries with a replica each
	sentinel                 // a primary and a replica, with three Sentinels
)

// link names the connections that go through proxies, two proxies per service.
type link int

const (
	none        link = iota
	toRedis          // from the services to Redis
	fromClients      // from the clients to the services
)

// scenarios returns the scenarios whose name matches.
func scenarios(only *regexp.Regexp) []scenario {
	all := slices.Concat(kills(), directorDeaths(), failovers(), stalls(), networks(), streamCuts(), replies(), clocks(), hostiles(),
		greedy(), unread(), costly(), strangerScenarios(), readTier(), losses(), upgrades())
	return slices.DeleteFunc(all, func(s scenario) bool { return !only.MatchString(s.name) })
}
