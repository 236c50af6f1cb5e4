package redis

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// replicaPatience bounds a read from a replica, and replicaPause is the time without such reads after one failed.
const (
	replicaPatience = 500 * time.Millisecond
	replicaPause    = time.Second
)

// Replicas reads from replicas. It has connections of its own, since a client of Sentinels that is told to
// use replicas can't work without one. It may be used by many goroutines.
type Replicas struct {
	options Options
	logger  *slog.Logger

	connecting sync.WaitGroup
	mu         sync.Mutex
	client     rueidis.Client // nil: none yet
	stop       func()         // ends the connecting to Sentinels
	busy       bool           // connecting is in progress
	closed     bool
	again      time.Time // earliest time of the next attempt
}

// NewReplicas returns the replicas that the options select: those of the Conn if it is a Cluster or behind Sentinel, or
// a replica of a standalone server. It connects at the first Run. Close closes the connections.
func NewReplicas(o Options) *Replicas { return &Replicas{options: o, logger: o.Logger} }

// Run runs a read-only script on a replica. ok is false if no replica can be asked now, or the status isn't OK: then
// ask the primary.
func (r *Replicas) Run(ctx context.Context, script *lua.Script, keys, args []string) (reply Reply, ok bool) {
	client := r.connected()
	if client == nil {
		return Reply{}, false
	}
	ctx, span := callSpan(ctx, script.Name())
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, replicaPatience)
	defer cancel()
	reply, err := NewReply(script.Name(), script.ExecReadOnly(ctx, client, keys, args))
	if err != nil && !refusal.Is(err, refusal.TryAgain) {
		r.pause(ctx, err)
	}
	return reply, err == nil && reply.Status == OK
}

// Read reads strings of one slot from a replica, with one command. Those that don't exist are nil. ok is false if no
// replica can be asked now.
func (r *Replicas) Read(ctx context.Context, keys []string) (values [][]byte, ok bool) {
	client := r.connected()
	if client == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, replicaPatience)
	defer cancel()
	found, err := client.Do(ctx, client.B().Mget().Key(keys...).Build()).ToArray()
	if err != nil {
		r.pause(ctx, err)
		return nil, false
	}
	values = make([][]byte, len(keys))
	for i, m := range found {
		if !m.IsNil() {
			values[i], _ = m.AsBytes() // MGET returns strings only
		}
	}
	return values, true
}

// connected returns the client, and starts to connect if there is none.
func (r *Replicas) connected() rueidis.Client {
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

func (r *Replicas) connect() {
	client, err := r.dial()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy, r.client = false, client
	if err != nil {
		r.again = time.Now().Add(replicaPause)
		r.logger.Warn("cannot connect to replicas, reading from the primary for now", "error", err)
	}
}

func (r *Replicas) dial() (rueidis.Client, error) {
	o, err := r.options.withDefaults()
	if err != nil {
		return nil, err
	}
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	c, r.stop = spaceSentinels(c)
	c.ReplicaOnly = true
	client, err := rueidis.NewClient(c)
	if errors.Is(err, rueidis.ErrReplicaOnlyNotSupported) { // a standalone server, which is a replica by itself
		c.ReplicaOnly = false
		return rueidis.NewClient(c)
	}
	return client, err
}

func (r *Replicas) pause(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = time.Now().Add(replicaPause)
	r.logger.DebugContext(ctx, "a replica failed, reading from the primary for now", "error", err)
}

// Close waits for a connection attempt in progress and closes the connections.
func (r *Replicas) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.connecting.Wait()
	if r.client != nil {
		r.stop()
		r.client.Close()
	}
}
