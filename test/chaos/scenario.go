package main

import (
	"regexp"
	"slices"
	"time"
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

// limits bound the effects on clients. Zero means no limit.
type limits struct {
	Gap      time.Duration // without a successful publish
	P99      time.Duration // of the tries of publishes
	Light    time.Duration // 99th percentile of a light client beside an attack; zero: there is no such client
	NoErrors bool          // no try of any request may fail
	Memory   int           // bytes of a service's resident memory
}

// gap returns limits for faults that clients notice.
func gap(seconds int) limits { return limits{Gap: time.Duration(seconds) * time.Second} }

// unharmed returns limits for attacks, which no client may notice: for publishes and a light client in milliseconds,
// for the memory in MiB. 0: no limit.
func unharmed(p99, light, memory int) limits {
	return limits{Gap: 2 * time.Second, P99: time.Duration(p99) * time.Millisecond,
		Light: time.Duration(light) * time.Millisecond, NoErrors: true, Memory: memory * miB}
}

// scenarios returns the scenarios whose name matches.
func scenarios(only *regexp.Regexp) []scenario {
	return slices.DeleteFunc(slices.Clone(allScenarios), func(s scenario) bool { return !only.MatchString(s.name) })
}
