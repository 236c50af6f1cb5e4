package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

// failovers are scenarios in which another Redis takes over, or slots are moved. If Redis may lose writes, the services
// wait for a replica.
func failovers() []scenario {
	return []scenario{
		{
			name: "cluster-failover", fault: "SIGKILL of two primaries of a Cluster, one after the other; each is restarted " +
				"as a replica",
			redis: redisSetup{layout: cluster}, failover: true, players: 4, limits: limits{Gap: 15 * time.Second},
			inject: failCluster,
		},
		{
			name: "cluster-death",
			fault: "SIGKILL of the primary of a channel that doesn't wait for replicas, twice, in a Cluster with a " +
				"`cluster-node-timeout` of 1 s",
			redis: redisSetup{layout: cluster}, flags: []string{"--channels", probedRule}, failover: true,
			limits: limits{Gap: 15 * time.Second}, inject: killPrimaries,
		},
		{
			name: "cluster-switchover", fault: "CLUSTER FAILOVER of all three primaries of a Cluster, without loss",
			redis: redisSetup{layout: cluster}, limits: limits{Gap: 5 * time.Second}, inject: switchCluster,
		},
		{
			name: "cluster-reshard", fault: "slots of busy channels and queues moved to another node of a Cluster and back, " +
				"key by key",
			redis: redisSetup{layout: cluster}, limits: limits{Gap: 5 * time.Second}, inject: reshard,
		},
		{
			name: "sentinel-failover", fault: "SIGKILL of the primary behind Sentinels, twice; it is restarted as a replica",
			redis: redisSetup{layout: sentinel}, failover: true, players: 4, limits: limits{Gap: 20 * time.Second},
			inject: failSentinel,
		},
		{
			name: "lossy-failover", fault: "three failovers to a replica without the last second of the primary's writes",
			failover: true, proxied: toRedis, players: 4, limits: limits{Gap: 10 * time.Second}, inject: failWithLoss,
		},
		{
			name: "repeated-writes",
			fault: "the same with eight publishers of each channel, which repeat their messages, so that " +
				"those get the clocks of the lost ones in another order, and subscribers that acknowledge after a second",
			failover: true, proxied: toRedis, repeated: true, limits: limits{Gap: 10 * time.Second}, inject: failWithLoss,
		},
	}
}

func failCluster(s *stage) {
	for _, key := range busyKeys()[:2] {
		killed, _ := s.cluster.Failover(s, s.cluster.Slot(key))
		killed.Restart(s)
		s.cluster.AwaitOK(s)
		s.pause(time.Second)
	}
}

func switchCluster(s *stage) {
	const slots = 16384
	for i := range 3 {
		s.cluster.Switchover(s, uint16(i*slots/3))
	}
}

// busyKeys returns a key of each slot that the load uses: those of its channels and queues.
func busyKeys() []string {
	var keys []string
	for i := range channelCount {
		keys = append(keys, fmt.Sprintf("{chaos-%d}", i))
	}
	for queue := range matchSeats {
		keys = append(keys, "{"+queue+"}")
	}
	return keys
}

func reshard(s *stage) {
	for _, key := range busyKeys() {
		slot := s.cluster.Slot(key)
		from := s.cluster.Owner(s, slot)
		to := anotherPrimary(s, from)
		s.cluster.MoveSlot(s, slot, from, to)
		s.pause(200 * time.Millisecond)
		s.cluster.MoveSlot(s, slot, to, from)
	}
}

// anotherPrimary returns a primary other than n.
func anotherPrimary(s *stage, n *redistest.Node) *redistest.Node {
	for _, other := range s.cluster.Nodes()[:3] {
		if other != n {
			return other
		}
	}
	return n
}

func failSentinel(s *stage) {
	for range 2 {
		killed, _ := s.sentinel.Failover(s)
		killed.Restart(s)
		s.sentinel.AwaitOK(s)
		s.pause(time.Second)
	}
}

// failWithLoss promotes, three times, a replica that lacks the last writes. The old primary becomes its replica.
func failWithLoss(s *stage) {
	primary, replica := s.node, redistest.StartReplica(s, s.node)
	s.logsOf(replica)
	for range 3 {
		link := s.startProxy(primary.Addr())
		s.Must(follow(s, replica, link.Addr()))
		s.pause(time.Second)

		link.Hold()
		s.pause(time.Second)
		primary.Kill(s)
		link.Refuse(true)
		link.Cut()
		s.Must(replica.Do(s, "REPLICAOF", "NO", "ONE").Error())
		for _, p := range s.proxies {
			p.SetTarget(replica.Addr())
			p.Cut()
		}
		primary.Restart(s)
		primary, replica = replica, primary
	}
	s.Must(follow(s, replica, primary.Addr()))
}

// follow makes n a replica, and waits until it is in sync.
func follow(s *stage, n *redistest.Node, primary string) error {
	host, port, err := net.SplitHostPort(primary)
	if err != nil {
		return err
	}
	if err := n.Do(s, "REPLICAOF", host, port).Error(); err != nil {
		return err
	}
	return s.retry(func() error {
		info, err := n.Do(s, "INFO", "replication").ToString()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New(n.Addr() + " is not in sync with " + primary)
		}
		return err
	})
}
