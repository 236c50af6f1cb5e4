package main

import (
	"regexp"
	"slices"
	"time"
)

// scenario is a fault, and what clients must see of it.
type scenario struct {
	name  string
	fault string // what happens, for the table

	layout    layout
	redisArgs []string
	flags     []string // of the services, beside those that all have
	binary    func(s *stage) string
	redisVia  bool // the services reach Redis through a proxy each
	clientVia bool // the clients reach the services through a proxy each
	balanced  bool // clients leave a service that is not ready, as behind a load balancer
	failover  bool // Redis may lose its last writes, see oracle.Rules
	players   int  // how many times as many players as elsewhere; 0: as many
	limits    limits

	// inject causes the fault while the load runs, and returns when it is over.
	inject func(s *stage)
}

// layout is how Redis runs.
type layout int

const (
	standalone layout = iota // with its append-only file on
	cluster                  // three primaries with a replica each
	sentinel                 // a primary and a replica, with three Sentinels
)

// limits are what clients may notice at most. Zero values are no limits, but for failures.
type limits struct {
	gap      time.Duration // without a publish that was answered with success
	p99      time.Duration // of the tries of publishes
	noErrors bool          // no try of any request may fail
	memory   int           // bytes of a service's resident memory
}

const mib = 1 << 20

// scenarios returns those whose name matches.
func scenarios(only *regexp.Regexp) []scenario {
	all := slices.Concat(kills(), failovers(), stalls(), networks(), replies(), clocks(), hostiles())
	return slices.DeleteFunc(all, func(s scenario) bool { return !only.MatchString(s.name) })
}
