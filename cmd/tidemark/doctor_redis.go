package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/diagnose"
)

const (
	slowRedis    = 5 * time.Millisecond // a round trip beyond this delays each request noticeably
	clockApart   = time.Second          // beyond this the times of messages and the ends of tokens look wrong
	memoryFilled = 0.8                  // of maxmemory
)

// checkRedis checks one Redis.
func checkRedis(ctx context.Context, c config.Config, server another) []finding {
	k := &checks{about: server.of}
	o, err := server.optionsOf(c, quietNeeds())
	if err != nil && server.of == "channels" && c.Redis.Address == "" {
		k.checkManaged(c.Managed)
		return k.found
	}
	conn := (*redis.Conn)(nil)
	if err == nil {
		o.Timeout = min(o.Timeout, doctorConnect)
		reach, cancel := context.WithTimeout(ctx, doctorConnect)
		conn, err = redis.Connect(reach, o)
		cancel()
	}
	if err != nil {
		k.failed("connection", err)
		return k.found
	}
	defer conn.Close()
	found, err := diagnose.Examine(ctx, conn)
	if err != nil {
		k.failed("connection", err)
		return k.found
	}
	s := found.Storage
	k.add(fine, "connection", "", "%s %s, %s, as user %s", s.Product, s.Version, s.Kind, conn.User())
	k.storage(c, server, s)
	k.nodes(c, conn.User(), found)
	if server.of != "tickets" {
		k.caching(ctx, conn)
	}
	if err := conn.Ready(ctx); err != nil {
		k.failed("writes", err)
	} else {
		k.add(fine, "writes", "", "a script wrote a key, and its notification arrived")
	}
	if server.of == "channels" {
		k.shared(ctx, c, conn)
	}
	return k.found
}

// failed adds a failure, with the remedy that its error has.
func (k *checks) failed(check string, err error) {
	text, remedy := diagnose.Explanation(err)
	if errors.Is(err, redis.ErrOptions) {
		check, remedy = checkOptions, "correct the option"
	}
	k.add(failure, check, remedy, "%s", text)
}

// storage checks what a Redis keeps. The start of a service logs these findings, too.
func (k *checks) storage(c config.Config, of another, s storage.Description) {
	k.durability(of, s)
	k.confirmations(confirmationsOf(c, of.of), s.Durability)
}

// warningsOf returns what the operator should change about a Redis, in whole sentences.
func warningsOf(c config.Config, of another, s storage.Description) []string {
	k := &checks{about: of.of}
	k.storage(c, of, s)
	return k.warnings()
}

// nodes checks the nodes of a Redis.
func (k *checks) nodes(c config.Config, user string, found diagnose.Examination) {
	k.cluster(found.Storage, found)
	for _, p := range found.Primaries {
		k.primary(c, user, p, found.Storage.Durability.MaxMemoryBytes)
	}
}

// durability checks what a Redis keeps. A cache needs to keep nothing.
func (k *checks) durability(of another, s storage.Description) {
	d, cache := s.Durability, of.kept() == ""
	o, loses := fine, ""
	switch d.Level {
	case storage.DurableMemory:
		loses = "neither the append-only file nor snapshots are on: a restart of Redis loses everything"
	case storage.DurableSnapshot:
		loses = "the append-only file isn't on, or isn't synced: a crash loses what came after the last snapshot"
	case storage.DurableAlways, storage.DurableEverysec, storage.DurableUnknown: // the last one can't be changed here
	}
	if loses != "" && !cache {
		o = warning
	}
	k.addClause(o, "persistence", loses, "set appendonly yes and appendfsync everysec in Redis",
		string(d.Level)+": "+meaning(d.Level))
	o = fine
	switch evicts, _ := d.Evicts(); {
	case cache:
	case evicts:
		o = failure
	case d.EvictionPolicy != "noeviction":
		o = warning
	}
	k.addClause(o, "eviction", "maxmemory-policy is "+d.EvictionPolicy, "set maxmemory-policy noeviction in Redis: "+
		"any other deletes "+of.kept()+" when its memory runs out", "maxmemory-policy "+d.EvictionPolicy)
	o = fine
	if !cache && s.Kind != "managed" && d.Replicas == 0 {
		o = warning
	}
	k.addClause(o, "replicas", "there is no replica", "add a replica: without one, "+of.kept()+
		" are lost with the machine", strconv.Itoa(d.Replicas))
}

// cluster checks that each slot has a primary, and that the clocks of primaries agree.
func (k *checks) cluster(s storage.Description, found diagnose.Examination) {
	if s.Kind != "cluster" {
		return
	}
	if found.Uncovered != "" {
		k.add(failure, "slots", "repair the Cluster: redis-cli --cluster check, then --cluster fix",
			"no primary has the slots %s", found.Uncovered)
		return
	}
	k.add(fine, "slots", "", "all slots have a primary; %d primaries answer", len(found.Primaries))
}

// primary checks a primary.
func (k *checks) primary(c config.Config, user string, p diagnose.Primary, maxMemory int64) {
	if p.Err != nil {
		k.failed("node", p.Err)
		return
	}
	k.abilities(c, user, p)
	o := fine
	if maxMemory > 0 && float64(p.UsedBytes) > memoryFilled*float64(maxMemory) {
		o = warning
	}
	limit := "no maxmemory"
	if maxMemory > 0 {
		limit = "maxmemory " + bytesText(float64(maxMemory))
	}
	k.add(o, "memory", "raise maxmemory, or store less: tidemark size estimates it", "%s: %s in use, %s", p.Address,
		bytesText(float64(p.UsedBytes)), limit)
	o = fine
	if p.Latency > slowRedis {
		o = warning
	}
	k.add(o, "latency", "run the service nearer to Redis, or find what slows Redis down (tidemark slowlog)", "%s: %s",
		p.Address, p.Latency.Round(10*time.Microsecond))
	o = fine
	if p.ClockOffset.Abs() > clockApart {
		o = warning
	}
	k.add(o, "clock", "synchronize the clocks of both machines (NTP)", "%s: differs by %s from this machine", p.Address,
		p.ClockOffset.Round(time.Millisecond).Abs())
}

// shared checks what servers share in the Redis of the channels.
func (k *checks) shared(ctx context.Context, c config.Config, conn *redis.Conn) {
	store, err := channels.New(conn, channels.Options{})
	if err != nil {
		k.failed("receipt keys", err)
		return
	}
	defer store.Close()
	n, err := store.CountReceiptKeys(ctx)
	_, advice := diagnose.Explanation(err)
	switch {
	case len(c.Receipts.Keys) > 0:
		k.add(fine, "receipt keys", "", "%d of the configuration", len(c.Receipts.Keys))
	case err != nil && advice == "":
		k.add(failure, "receipt keys", "if no service uses this Redis, delete the key, or set "+config.InServe("key-prefix"),
			"%v", err)
	case err != nil:
		k.failed("receipt keys", err)
	case n == 0:
		k.add(fine, "receipt keys", "", "none yet: the first server makes one")
	default:
		k.add(fine, "receipt keys", "", "%d, shared by the servers on this Redis", n)
	}
	if n, err := store.CountAnnouncements(ctx); err != nil {
		k.failed("servers", err)
	} else {
		k.add(fine, "servers", "", "%d run on this Redis with this key prefix", n)
	}
}
