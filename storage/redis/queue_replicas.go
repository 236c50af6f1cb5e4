package redis

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// replicaPatience bounds a read from a replica, and replicaPause is how long replicas are left alone after one failed.
const (
	replicaPatience = 500 * time.Millisecond
	replicaPause    = time.Second
)

// replicas reads tickets from replicas, as long as they can be reached. It has connections of its own, since a client
// of Sentinels that is told to use replicas can't do without one.
type replicas struct {
	options Options
	logger  *slog.Logger
	lua     *rueidis.Lua

	connecting sync.WaitGroup
	mu         sync.Mutex
	client     rueidis.Client // nil: there is none yet
	busy       bool           // connecting is under way
	closed     bool
	again      time.Time // before that nothing is tried
}

func newReplicas(o Options, logger *slog.Logger) *replicas {
	return &replicas{options: o, logger: logger, lua: rueidis.NewLuaScriptReadOnly(ticketScript.Source())}
}

// read runs ticket.lua on a replica. It gives false where that has no ticket or can't be asked: then the primary is.
func (r *replicas) read(ctx context.Context, keys, args []string) (reply, bool) {
	client := r.connected()
	if client == nil {
		return reply{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, replicaPatience)
	defer cancel()
	a := newAnswer(ticketScript.Name(), r.lua.Exec(ctx, client, keys, args))
	if a.err != nil && code(a.err) != codeTryAgain {
		r.pause(ctx, a.err)
	}
	return a.reply, a.err == nil && a.reply.status == statusOK
}

// connected gives the client, and begins to connect where there is none.
func (r *replicas) connected() rueidis.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.busy || time.Now().Before(r.again) {
		return nil
	}
	if r.client == nil {
		r.busy = true
		r.connecting.Go(r.connect)
	}
	return r.client
}

func (r *replicas) connect() {
	client, err := r.dial()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy, r.client = false, client
	if err != nil {
		r.again = time.Now().Add(replicaPause)
		r.logger.Warn("tickets aren't read from replicas for now", "error", err)
	}
}

func (r *replicas) dial() (rueidis.Client, error) {
	o, err := r.options.withDefaults()
	if err != nil {
		return nil, err
	}
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	c.ReplicaOnly = true
	c.ClusterOption.ShardsRefreshInterval = 5 * time.Second // otherwise new replicas aren't heard of
	client, err := rueidis.NewClient(c)
	if errors.Is(err, rueidis.ErrReplicaOnlyNotSupported) { // a standalone server, which is a replica by itself
		c.ReplicaOnly = false
		return rueidis.NewClient(c)
	}
	return client, err
}

func (r *replicas) pause(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = time.Now().Add(replicaPause)
	r.logger.DebugContext(ctx, "a replica failed, tickets are read from the primary for now", "error", err)
}

// close waits for what was begun and ends the connections.
func (r *replicas) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.connecting.Wait()
	if r.client != nil {
		r.client.Close()
	}
}
