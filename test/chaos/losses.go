package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

// losses are scenarios in which Redis loses what was written: a primary is cut off, or all keys are deleted or evicted.
func losses() []scenario {
	return []scenario{
		{
			name: "sentinel-isolated",
			fault: "the primary cut off from its replica and the Sentinels for 8 s, but not from the services, which reach no " +
				"Sentinel either",
			redis: redisSetup{layout: sentinel, args: serviceUser}, flags: []string{"--redis-username", "service",
				"--redis-password", servicePassword}, failover: true,
			limits: limits{Gap: 25 * time.Second, Memory: 150 * miB}, inject: isolatePrimary,
		},
		{
			name:   "flushed-shards",
			fault:  "FLUSHALL on the Redis with the claims of four nodes of shards, twice",
			limits: limits{Gap: 5 * time.Second}, inject: flushShards,
		},
		{
			name:   "evicting-redis",
			fault:  "services and a node of shards started with a Redis that evicts, for each of its uses",
			limits: limits{Gap: 5 * time.Second}, inject: startWithEviction,
		},
	}
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

// flushShards deletes all keys of a Redis of its own under nodes of shards: they claim their shards again, and none
// ends.
func flushShards(s *stage) {
	redis := redistest.Start(s, redistest.Options{})
	nodes := s.startNodes(redis)
	status := func() string {
		text, err := s.tidemark("shards", "status", "--redis", redis.URL(), "--cache", "author", "--check")
		if err != nil {
			return ""
		}
		return strings.Join(holders(text), "\n")
	}
	before := status()
	for range 2 {
		s.Must(redis.Do(s, "FLUSHALL").Error())
		began := time.Now()
		for _, node := range nodes { // each is ready again, which it wasn't without a claim
			s.Must(s.retry(func() error {
				if node.OK(s.Context(), "/readyz") {
					return errors.New(node.Name() + " hasn't noticed that its claim is gone")
				}
				return nil
			}))
		}
		for _, node := range nodes {
			s.Must(s.awaitReady(node))
		}
		s.note("all shards had their nodes again %s after FLUSHALL", time.Since(began).Round(time.Second))
	}
	if after := status(); before == "" || after != before {
		s.complain("the shards' nodes were\n%s\nand are\n%s", before, after)
	}
	for _, node := range nodes {
		if !node.Alive() {
			s.complain("%s has ended", node.Name())
		}
	}
}

// holders returns the shards and hosts of the output of tidemark shards status.
func holders(text string) (all []string) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 4 {
			all = append(all, strings.Join(fields[:5], " "))
		}
	}
	return all
}

// tidemark runs a command, and returns its output.
func (s *stage) tidemark(args ...string) (string, error) {
	cmd := exec.CommandContext(s.Context(), s.settings.tidemark, args...) //nolint:gosec // the binary under test
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// startWithEviction starts programs that must refuse a Redis that evicts what they keep there.
func startWithEviction(s *stage) {
	evicts := redistest.Start(s, redistest.Options{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy",
		"allkeys-lru"}}).URL()
	listen := []string{"--listen", "127.0.0.1:0", "--admin-listen", "off"}
	serve := append([]string{"serve", "--grpc-listen", "off", "--key-prefix", "evicts:"}, listen...)
	for _, args := range [][]string{
		append(serve, "--redis", evicts),
		append(serve, "--redis", evicts, "--records", "off"),
		append(serve, "--redis", s.node.URL(), "--tickets-redis", evicts),
		append(serve, "--redis", s.node.URL(), "--tickets-redis", evicts, "--records", "off"),
		append(serve, "--redis", s.node.URL(), "--sessions-redis", evicts),
		append([]string{"shard", "serve", "--redis", evicts, "--cache", "author", "--dc", "a"}, listen...),
	} {
		text, err := s.tidemark(args...)
		if err == nil || !strings.Contains(text, "evicts (maxmemory-policy allkeys-lru)") {
			s.complain("tidemark %s: %v: %s", strings.Join(args, " "), err, text)
		}
	}
}
