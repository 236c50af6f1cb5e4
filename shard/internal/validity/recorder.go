package validity

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/shard"
)

// Node is a node whose values are the times at which they were read.
type Node = shard.Node[uint64, uint64, time.Duration]

// Cache describes the cache of such nodes.
var Cache = shard.Description[uint64, uint64, time.Duration]{
	Cache: "times", ShardingKey: func(key uint64) uint64 { return key }, EntryID: func(key uint64) uint64 { return key },
	Keys: shard.JSON[[]uint64](), Values: shard.JSON[[]shard.Entry[uint64, time.Duration]](),
}

// Recorder records what one node does. It is the node's source and its observer.
type Recorder struct {
	DC    string
	At    func(time.Time) time.Duration // converts to the clock that all nodes share
	Write func(Event)
	Pause func(ctx context.Context) // is called before each read

	mu    sync.Mutex
	held  Claim     // that was recorded last
	until time.Time // that was recorded last; zero: it has stopped since
}

// Run implements shard.Source.
func (r *Recorder) Run(ctx context.Context, _ shard.Interval, serve func(shard.Reader[uint64, uint64, time.Duration])) error {
	serve(func(ctx context.Context, keys []uint64) ([]shard.Entry[uint64, time.Duration], error) {
		r.Pause(ctx)
		return []shard.Entry[uint64, time.Duration]{{ID: keys[0], Value: r.At(time.Now())}}, nil
	})
	<-ctx.Done()
	return nil
}

// Ask asks the node for a key of its shard, and records until when it may answer, and when the value was read. It reports whether the
// node has answered.
func (r *Recorder) Ask(ctx context.Context, n *Node) (answered bool, err error) {
	c, ok := r.look(n)
	if !ok {
		return false, nil
	}
	keys := []uint64{c.Interval.First}
	payload, err := Cache.Keys.Append(nil, keys)
	if err != nil {
		return false, err
	}
	got, err := n.Get(ctx, &shard.Request{Cache: Cache.Cache, Payload: payload, Keys: keys})
	if err != nil || !got.AllMatched {
		return false, err
	}
	r.look(n)
	values, err := Cache.Values.Decode(got.Payload)
	if err != nil {
		return false, err
	}
	r.Write(Event{Kind: Reads, Claim: Claim{DC: r.DC, Shard: got.Shard, Incarnation: got.Incarnation}, At: values[0].Value})
	return true, nil
}

// look records until when the node may answer.
func (r *Recorder) look(n *Node) (c shard.Claimed, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, until, ok := n.Held()
	if ok {
		r.record(c, until)
	}
	return c, ok
}

func (r *Recorder) record(c shard.Claimed, until time.Time) {
	held := Claim{DC: r.DC, Shard: c.Interval, Incarnation: c.Incarnation}
	if held == r.held && until.Equal(r.until) {
		return
	}
	r.held, r.until = held, until
	r.Write(Event{Kind: Holds, Claim: r.held, At: r.At(time.Now()), Until: r.At(until)})
}

// Stopped implements shard.NodeObserver.
func (r *Recorder) Stopped(error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Time{}
	r.Write(Event{Kind: Stops, Claim: r.held, At: r.At(time.Now())})
}

// Answered implements shard.NodeObserver.
func (*Recorder) Answered(int, bool, time.Duration, error) {}

// Claimed implements shard.NodeObserver. Nobody else may answer for the shard from now on.
func (r *Recorder) Claimed(c shard.Claimed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record(c, time.Now())
}

// Loaded implements shard.NodeObserver.
func (*Recorder) Loaded(time.Duration, error) {}
