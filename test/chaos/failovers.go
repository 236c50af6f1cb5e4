package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/report"
)

func failCluster(s *stage) {
	for _, key := range busyKeys()[:2] {
		s.failPrimary(key)
	}
}

// failPrimary kills the primary of a key. It returns as a replica.
func (s *stage) failPrimary(key string) {
	killed, _ := s.cluster.Failover(s, s.cluster.Slot(key))
	killed.Restart(s)
	s.cluster.AwaitOK(s)
	s.pause(time.Second)
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

// The services have a user of their own, so that the Sentinels and the replica, which have none, can be cut off.
const servicePassword = "chaos"

var serviceUser = []string{"--user", "service", "on", ">" + servicePassword, "~*", "&*", "+@all"}

// isolatePrimary lets the Sentinels promote the replica while the primary goes on answering the services.
func isolatePrimary(s *stage) {
	primary, replica := s.sentinel.Nodes()[0], s.sentinel.Nodes()[1]
	allow := func(on string) {
		for _, n := range s.sentinel.Sentinels() {
			s.Must(n.Do(s, "ACL", "SETUSER", "default", on+"subscribe", on+"psubscribe", on+"sentinel",
				"+sentinel|is-master-down-by-addr").Error())
		}
		s.Must(primary.Do(s, "ACL", "SETUSER", "default", on+"ping", on+"info", on+"psync", on+"replconf").Error())
	}
	allow("-")
	for _, n := range s.sentinel.Sentinels() {
		s.Must(n.Do(s, "CLIENT", "KILL", "TYPE", "pubsub").Error())
	}
	s.Must(primary.Do(s, "CLIENT", "KILL", "TYPE", "replica").Error())
	s.pause(8 * time.Second)
	s.Must(roleIs(s, replica, "master"))
	s.Must(roleIs(s, primary, "master"))
	allow("+")
	s.pause(8 * time.Second) // for as long Sentinels leave a primary that is back as it is
	s.Must(s.retry(func() error { return roleIs(s, primary, "slave") }))
	s.sentinel.AwaitOK(s)
	s.Must(s.retry(s.reportedLoss))
}

// roleIs returns an error unless a Redis has a role.
func roleIs(s *stage, n *redistest.Node, role string) error {
	got, err := n.Do(s, "ROLE").ToArray()
	if err != nil {
		return err
	}
	text, err := got[0].ToString()
	if err == nil && text != role {
		err = fmt.Errorf("%s is %s, not %s", n.Addr(), text, role)
	}
	return err
}

// reportedLoss returns an error unless each service has logged that the primary which it followed had writes that are
// lost: at least those that no replica has confirmed.
func (s *stage) reportedLoss() error {
	var missing []error
	for _, service := range s.services {
		if !strings.Contains(service.Log(), `msg="redis has another primary, which lacks writes of the former one"`) {
			missing = append(missing, errors.New(service.Name()+" hasn't reported the lost writes"))
		}
	}
	return errors.Join(missing...)
}

const (
	deaths     = 2 // of primaries
	probeEvery = 20 * time.Millisecond
	probeLimit = 15 * time.Second
	// gapLimit bounds the time from the promotion of a replica to the first success of a client.
	gapLimit = 500 * time.Millisecond
)

// probedRule makes the probed channel usable while its slot has one node: its publishes don't wait for a replica.
const probedRule = `[{"pattern":"probed","replicas":0}]`

// recovery has times since the death of a primary.
type recovery struct {
	promotion     time.Duration // of its replica, in its own view
	publish, next time.Duration // first success of a client
}

// killPrimaries kills the primary of the probed channel, twice. The killed one returns as a replica.
func killPrimaries(s *stage) {
	const channel = "/v1/channels/probed"
	s.prepareOne(s.public(http.MethodPut, channel+"/subscribers/p", ""))
	slot := s.cluster.Slot("{probed}")
	for range deaths {
		killed, replica := s.cluster.Owner(s, slot), s.cluster.Replica(s, slot)
		killed.Kill(s)
		r := s.probe(channel, replica)
		s.note("first success of a publish %.2f s and of a next %.2f s after the death; Redis promoted the replica "+
			"after %.2f s", r.publish.Seconds(), r.next.Seconds(), r.promotion.Seconds())
		if late := max(r.publish, r.next) - r.promotion; late > gapLimit {
			s.complain("the first success was %s after the promotion, more than %s", report.WholeMillis(late),
				report.WholeMillis(gapLimit))
		}
		killed.Restart(s)
		s.cluster.AwaitOK(s)
		s.pause(time.Second)
	}
}

// probe measures a recovery that begins now.
func (s *stage) probe(channel string, replica *redistest.Node) (r recovery) {
	died := time.Now()
	var probes sync.WaitGroup
	measure := func(first *time.Duration, attempt func(ctx context.Context, n int) bool) {
		probes.Go(func() { *first = firstSuccess(s.Context(), attempt).Sub(died) })
	}
	measure(&r.promotion, func(context.Context, int) bool { return roleIs(s, replica, "master") == nil })
	measure(&r.publish, func(ctx context.Context, n int) bool {
		path := fmt.Sprintf("%s/messages/d%d-%d", channel, died.UnixMilli(), n)
		_, err := s.send(ctx, s.public(http.MethodPut, path, "1"))
		return err == nil
	})
	measure(&r.next, func(ctx context.Context, _ int) bool {
		_, err := s.send(ctx, s.public(http.MethodPost, channel+"/subscribers/p/next", `{"max":1}`))
		return err == nil
	})
	probes.Wait()
	return r
}

// firstSuccess calls attempt every 20 ms, without waiting for the calls before, and returns when the first one
// succeeded, or when it gave up.
func firstSuccess(ctx context.Context, attempt func(ctx context.Context, n int) bool) time.Time {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	var first atomic.Pointer[time.Time]
	var running sync.WaitGroup
	for n := 0; ctx.Err() == nil; n++ {
		running.Go(func() {
			if attempt(ctx, n) {
				now := time.Now()
				first.CompareAndSwap(nil, &now)
				cancel()
			}
		})
		pace.Sleep(ctx, probeEvery)
	}
	cancel()
	running.Wait()
	if at := first.Load(); at != nil {
		return *at
	}
	return time.Now()
}
