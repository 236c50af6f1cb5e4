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
	// producers is whether there are also producers that restart, and close their channels at the end.
	producers bool

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

// Options of services and of Redis in scenarios.
var (
	drainSlowly  = []string{"--drain-delay", "1s"}
	serviceLogin = []string{"--redis-username", "service", "--redis-password", servicePassword}
	fewSockets   = append([]string{"--max-connections", "300"}, rationed...)

	// alwaysSync makes Redis write its append-only file before it replies. With everysec it may reply earlier while the
	// disk is slow.
	alwaysSync = redisSetup{args: []string{"--appendfsync", "always"}}
	loadsLong  = redisSetup{args: []string{"--appendfsync", "always", "--key-load-delay", "100"}}
	savesOften = redisSetup{args: []string{"--save", "3600 1"}}
	onCluster  = redisSetup{layout: cluster}
)

const replacedServices = "the services replaced one by one behind a load balancer: the previous release by this one, " +
	"this one by the previous one, and again by this one"

// allScenarios are the scenarios, in the order of the page.
var allScenarios = []scenario{
	// Processes are killed or stopped.
	{name: "service-kill", limits: gap(3), inject: killServices,
		fault: "SIGKILL of one service after the other, four times, each restarted after 0.5 s"},
	{name: "service-rolling", flags: drainSlowly, balanced: true, limits: limits{Gap: time.Second, NoErrors: true},
		inject: restartServices,
		fault:  "two rolling restarts with SIGTERM and a drain delay of 1 s, behind a load balancer"},
	{name: "service-stop", limits: gap(8), inject: stopServices,
		fault: "SIGSTOP of one service after the other for 5 s, longer than its leases last"},
	{name: "redis-kill", redis: alwaysSync, limits: gap(6), inject: killRedis,
		fault: "SIGKILL of Redis with `appendfsync always`, twice, restarted after 1 s"},
	{name: "kill-all", redis: alwaysSync, limits: gap(6), inject: killAll,
		fault: "SIGKILL of Redis, with `appendfsync always`, and of both services at the same time; " +
			"all restarted after 0.5 s"},
	{name: "producers", redis: alwaysSync, producers: true, limits: gap(6), inject: killProducers,
		fault: "producers restart with higher epochs while those of the lower ones go on; SIGKILL of a service, then of " +
			"Redis with `appendfsync always`, twice; in the end the producers close their channels"},
	{name: "director-death", limits: gap(1), inject: killDirectors,
		fault: "directors of a queue's user die in every second fetch: before the end of its stream, or between it and " +
			"the assignment"},

	// Another Redis takes over, or slots are moved. If Redis may lose writes, the services wait for a replica.
	{name: "cluster-failover", redis: onCluster, failover: true, players: 4, limits: gap(15), inject: failCluster,
		fault: "SIGKILL of two primaries of a Cluster, one after the other; each is restarted as a replica"},
	{name: "producers-failover", redis: onCluster, failover: true, producers: true, limits: gap(15), inject: failProducers,
		fault: "the producers of `producers`; SIGKILL of a service, then of a primary of a Cluster with one of their " +
			"channels, twice"},
	{name: "cluster-death", redis: onCluster, flags: []string{"--channels", probedRule}, failover: true, limits: gap(15),
		inject: killPrimaries,
		fault: "SIGKILL of the primary of a channel that doesn't wait for replicas, twice, in a Cluster with a " +
			"`cluster-node-timeout` of 1 s"},
	{name: "cluster-switchover", redis: onCluster, limits: gap(5), inject: switchCluster,
		fault: "CLUSTER FAILOVER of all three primaries of a Cluster, without loss"},
	{name: "cluster-reshard", redis: onCluster, limits: gap(5), inject: reshard,
		fault: "slots of busy channels and queues moved to another node of a Cluster and back, key by key"},
	{name: "sentinel-failover", redis: redisSetup{layout: sentinel}, failover: true, players: 4, limits: gap(20),
		inject: failSentinel,
		fault:  "SIGKILL of the primary behind Sentinels, twice; it is restarted as a replica"},
	{name: "lossy-failover", failover: true, proxied: toRedis, players: 4, limits: gap(10), inject: failWithLoss,
		fault: "three failovers to a replica without the last second of the primary's writes"},
	{name: "repeated-writes", failover: true, proxied: toRedis, repeated: true, limits: gap(10), inject: failWithLoss,
		fault: "the same with eight publishers of each channel, which repeat their messages, so that " +
			"those get the clocks of the lost ones in another order, and subscribers that acknowledge after a second"},
	{name: "producers-repeat", failover: true, proxied: toRedis, producers: true, limits: gap(10), inject: failWithLoss,
		fault: "the producers of `producers`, which repeat what three failovers have lost, as in `lossy-failover`"},

	// Redis runs but does not reply.
	{name: "redis-stop", limits: gap(10), inject: stopRedis,
		fault: "SIGSTOP of Redis for 3 s and for 7 s, longer than --redis-timeout"},
	{name: "redis-busy", limits: gap(10), inject: busyRedis,
		fault: "DEBUG SLEEP of 2 s, then a script that runs for 7 s: BUSY, and SCRIPT KILL"},

	// Connections break, hang or are slow.
	{name: "redis-cut", proxied: toRedis, limits: gap(2), inject: cutConnections,
		fault: "all connections to Redis reset, ten times, half a second apart"},
	{name: "redis-half-open", proxied: toRedis, limits: gap(15), inject: silenceConnections,
		fault: "connections to Redis of one service, then of both, silent for 8 s and then reset"},
	{name: "redis-slow", proxied: toRedis, limits: gap(3), inject: slowConnections(20*time.Millisecond, 512<<10),
		fault: "20 ms of delay and at most 512 KiB/s on every connection to Redis for 8 s"},
	{name: "client-cut", proxied: fromClients, limits: gap(2), inject: cutConnections,
		fault: "all client connections reset, ten times, half a second apart"},
	{name: "client-half-open", proxied: fromClients, limits: gap(20), inject: silenceConnections,
		fault: "client connections to one service, then to both, silent for 8 s and then reset"},
	{name: "client-slow", proxied: fromClients, limits: gap(3), inject: slowConnections(50*time.Millisecond, 64<<10),
		fault: "50 ms of delay and at most 64 KiB/s on every client connection for 8 s"},
	{name: "stream-cut", redis: alwaysSync, proxied: fromClients, limits: gap(6), inject: cutStreams,
		fault: "client connections slowed down to pieces of events and reset, six times; a restart " +
			"of each service with SIGTERM, then SIGKILL of one, and SIGKILL of Redis with `appendfsync always`"},

	// Redis replies with errors, has lost a key, or has another clock.
	{name: "oom", limits: gap(8), inject: fillRedis,
		fault: "`maxmemory` reached for 5 s, then raised: OOM"},
	{name: "readonly", limits: gap(8), inject: readOnly,
		fault: "the primary is made a replica for 5 s: READONLY"},
	{name: "masterdown", limits: gap(8), inject: masterDown,
		fault: "the primary is made a replica that serves no stale data for 5 s: MASTERDOWN"},
	{name: "loading", redis: loadsLong, limits: gap(15), inject: loadSlowly,
		fault: "Redis restarted with an append-only file that takes seconds to load: LOADING"},
	{name: "misconf", redis: savesOften, limits: gap(8), inject: failSaves,
		fault: "dump.rdb is a directory and BGSAVE fails: MISCONF for 5 s, with constant readiness checks"},
	{name: "script-flush", limits: gap(2), inject: flushScripts,
		fault: "SCRIPT FLUSH every 20 ms for 8 s"},
	{name: "key-lost", limits: gap(3), inject: loseKey,
		fault: "the receipt key is deleted and one of two services is restarted; receipts may be " +
			"refused in the second after its start"},
	{name: "clock-jump", redis: redisSetup{binary: fakeClock}, limits: gap(5), inject: jumpClock,
		fault: "Redis's clock jumps 100 s ahead, back, 100 s behind, and back"},

	// Some clients use more than their share.
	{name: "rapid-reset", limits: unharmed(300, 300, 200), inject: rapidReset,
		fault: "eight HTTP/2 connections open and reset streams of waiting fetches for 8 s"},
	{name: "frame-flood", limits: unharmed(300, 300, 200), inject: floodFrames,
		fault: "eight HTTP/2 connections send PING, SETTINGS or CONTINUATION frames for 8 s"},
	{name: "header-flood", limits: unharmed(300, 300, 200), inject: floodHeaders,
		fault: "eight HTTP/2 connections send headers that expand when they are decoded for 8 s"},
	{name: "stalled-bodies", limits: unharmed(300, 0, 600), inject: stallBodies,
		fault: "150 publishes stop one byte short of a body of 1 MiB or 8 MiB for 8 s"},
	{name: "large-fetches", limits: unharmed(100, 0, 0), inject: fetchLargely,
		fault: "300 subscribers fetch 4 MiB each at the same time"},
	{name: "large-fetches-of-many", limits: unharmed(0, 300, 0), inject: fetchManyLargely,
		fault: "300 fetches of 256 subscribers of a channel with 16 messages of 250 KiB"},
	{name: "many-queues", flags: []string{"--max-queues", "1100"}, limits: unharmed(300, 0, 200), inject: putQueues,
		fault: "1,000 queues created and deleted"},

	// One client takes as much as it can get of what all share: memory of answers and of frames, connections, and time.
	{name: "fetches-of-many", flags: rationed, limits: unharmed(0, 100, 400), inject: fetchFromMany,
		fault: "30 loops of one client fetch from 256 channels with a message of 60,000 bytes each for 8 s"},
	{name: "unfinished-frames", limits: unharmed(0, 100, 400), inject: sendUnfinishedFrames,
		fault: "160 WebSockets of one client announce frames of 1 MB and send 2 to 600 KB of each"},
	{name: "open-sockets", flags: fewSockets, limits: unharmed(0, 100, 400), inject: openSockets,
		fault: "one client opens WebSockets until none is opened any more"},
	{name: "condemned-sockets", flags: rationed, limits: unharmed(0, 100, 400), inject: floodCondemned,
		fault: "eight WebSockets of one client are ended for a frame that isn't valid, and " +
			"send all they can, again and again for 8 s"},
	{name: "empty-fragments", flags: rationed, limits: unharmed(0, 100, 400), inject: floodFragments,
		fault: "eight WebSockets of one client send fragments of length 0 and pings for 8 s"},

	// A client doesn't read large answers.
	{name: "unread-fetches", limits: unharmed(0, 300, 400), inject: ignoreFetches,
		fault: "85 fetches of 4 MiB a second for 8 s, none of which is read"},
	{name: "unread-streams", limits: unharmed(0, 300, 400), inject: ignoreLargeStreams,
		fault: "250 fetches of 4 MiB on an HTTP/2 connection with a window of 0"},
	{name: "unread-values", limits: unharmed(0, 300, 400), inject: ignoreValues,
		fault: "300 requests for 100 cached values of 1 MiB, none of which is read"},
	{name: "unread-sessions", limits: unharmed(0, 300, 400), inject: ignoreSessions,
		fault: "300 lists of 1,000 sessions, none of which is read"},
	{name: "unread-tickets", flags: []string{"--grpc-message-bytes", "1MiB"}, limits: unharmed(0, 300, 400),
		inject: ignoreTickets,
		fault:  "2 gRPC connections with a window of 0 and 250 GetTicket each, of a ticket of 600 KiB"},

	// One client sends requests that each take long, within the limits that users have by default. Administrators have no
	// limits.
	{name: "batches", flags: rationed, limits: unharmed(0, 200, 400), inject: publishBatches,
		fault: "four connections of one client publish the largest batches of one-byte messages for 8 s"},
	{name: "broken-json", flags: rationed, limits: unharmed(0, 200, 400), inject: sendBrokenJSON,
		fault: "four connections of one client send 1 MiB of JSON without its end for 8 s"},
	{name: "large-tickets", flags: rationed, limits: unharmed(0, 200, 400), inject: createLargeTickets,
		fault: "four connections of one client create tickets with 10,000 and 100 criteria for 8 s"},
	{name: "large-lists", flags: rationed, limits: unharmed(0, 200, 400), inject: readLargeLists,
		fault: "four connections of one client list 1,000 sessions and patch a state of 60 KB for 8 s"},
	{name: "ticket-queries", flags: rationed, limits: unharmed(0, 200, 400), inject: queryTickets,
		fault: "four connections of one client query 3,000 waiting tickets for 8 s"},
	{name: "admin-reads", flags: rationed, limits: unharmed(0, 200, 400), inject: readAsAdministrator,
		fault: "four connections of an administrator read the metrics and export 100 settings for 8 s"},

	// Clients without a credential keep connections open.
	{name: "admin-connections", limits: unharmed(300, 300, 0), inject: holdAdmin,
		fault: "100 clients keep connections to the admin listener open for 8 s, silently or by requests of /livez"},

	// Caches are read through nodes of shards, or Redis loses what was written: a primary is cut off, or all keys are
	// deleted or evicted.
	{name: "redis-stop-shards", flags: []string{"--cache-shards", "author", "--shard-ping-period", "200ms"},
		limits: gap(10), inject: stopRedisOfShards,
		fault: "SIGSTOP of Redis for 8 s while authors are read through nodes of shards, " +
			"right after 20 were changed; meanwhile SIGSTOP of all nodes for 60 ms, every second"},
	{name: "sentinel-isolated", redis: redisSetup{layout: sentinel, args: serviceUser}, flags: serviceLogin,
		failover: true, limits: limits{Gap: 25 * time.Second, Memory: 150 * miB}, inject: isolatePrimary,
		fault: "the primary cut off from its replica and the Sentinels for 8 s, but not from the services, which reach no " +
			"Sentinel either"},
	{name: "flushed-shards", limits: gap(5), inject: flushShards,
		fault: "FLUSHALL on the Redis with the claims of four nodes of shards, twice"},
	{name: "evicting-redis", limits: gap(5), inject: startWithEviction,
		fault: "services and a node of shards started with a Redis that evicts, for each of its uses"},

	// The services are replaced by those of another release. They begin with the previous release.
	{name: "upgrade", flags: drainSlowly, balanced: true, previous: true, limits: gap(3), inject: upgrade,
		fault: replacedServices},
	{name: "upgrade-cluster", redis: onCluster, flags: drainSlowly, balanced: true, previous: true, limits: gap(3),
		inject: upgrade, fault: replacedServices + "; on a Cluster"},
}
