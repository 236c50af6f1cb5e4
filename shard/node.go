package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/lease"
)

// NodeOptions configure a Node. The zero value of a field means its default.
type NodeOptions struct {
	Member Member // the claimant; its Cache is that of the description
	Claims Claims // stores the claims; required
	// PingPeriod is how often the claim is renewed, and how often a node that can't renew it tries to. Default: 1 s.
	PingPeriod time.Duration
	// TTL is how long the claim lasts after its last renewal, and so how long a shard has no node if one dies. Default:
	// 10 s.
	TTL time.Duration
	// Margin is how long before the claim ends the node stops answering, unless it was renewed. Default: a tenth of
	// TTL.
	Margin time.Duration
	// KeepServing makes a node that couldn't renew its claim in time continue to answer until a claim is refused.
	// Meanwhile another node may answer for the shard, with other values.
	KeepServing bool
	Logger      *slog.Logger // default: nothing is logged
	Observer    NodeObserver // default: none
}

// NodeObserver receives the events of a Node, for metrics. Its methods may be called by many goroutines, and must not
// block.
type NodeObserver interface {
	// Answered is called after each Get. matched: all of its keys were in the shard. err: the error of Get.
	Answered(keys int, matched bool, took time.Duration, err error)
	// Claimed is called when the node has claimed a shard, or the same one again with another incarnation.
	Claimed(c Claimed)
	// Loaded is called when a run of the source has loaded the shard for the first time, or has failed to.
	Loaded(took time.Duration, err error)
	// Stopped is called when the node stops answering for a shard, with the reason.
	Stopped(why error)
}

// Node answers for one shard of its data centre, which it claims when it is run. See [NewNode].
type Node[K any, ID comparable, V any] struct {
	d      Description[K, ID, V]
	source Source[K, ID, V]
	o      NodeOptions
	leases *lease.Manager
	claim  *claimLease
	load   *load[K, ID, V] // nil: nothing is loaded; owned by Run

	serving atomic.Pointer[serving[K, ID, V]] // nil: the node doesn't answer
	why     atomic.Pointer[unready]           // why it doesn't
}

// unready is why a node doesn't answer.
type unready struct {
	reason string
	err    error // optional
}

func (u *unready) Error() string {
	if u.err == nil {
		return u.reason
	}
	return u.reason + ": " + u.err.Error()
}

func (u *unready) Unwrap() error { return u.err }

// NewNode returns a node for the shards of a cache. Run makes it claim one.
func NewNode[K any, ID comparable, V any](d Description[K, ID, V], s Source[K, ID, V], o NodeOptions) (*Node[K, ID, V],
	error) {
	o.Member.Cache = d.Cache
	if err := errors.Join(d.check(), CheckName("data centre", o.Member.DC),
		CheckName("host", o.Member.Host)); err != nil {
		return nil, err
	}
	if s == nil || o.Claims == nil || o.Member.Address == "" {
		return nil, errors.New("shard: a node needs a source, claims and an address")
	}
	if o.PingPeriod == 0 {
		o.PingPeriod = DefaultPingPeriod
	}
	if o.TTL == 0 {
		o.TTL = lease.DefaultTTL
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("cache", d.Cache, "dc", o.Member.DC, "host", o.Member.Host)
	if o.Observer == nil {
		o.Observer = unobservedNode{}
	}
	n := &Node[K, ID, V]{d: d, source: s, o: o}
	n.claim = &claimLease{claims: o.Claims, member: o.Member, refused: n.refused}
	leases, err := lease.NewManager(n.claim, lease.Options{TTL: o.TTL, Renew: o.PingPeriod, Margin: o.Margin,
		Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("the claim of a shard: %w", err)
	}
	n.leases = leases
	n.why.Store(&unready{reason: "the node isn't run"})
	return n, nil
}

// Run claims a shard, loads it, and makes Get answer for it, until ctx ends: then it leaves the shard and returns nil.
// If the node has lost its shard to another one it returns an error that wraps lease.ErrLost.
//
// If the claim can't be renewed in time, Get stops answering, but the source continues, so that Get answers again when
// the same shard is claimed again and, if the source is a Refresher, refreshed. A changed layout makes Run claim another shard and load that. Run may be called
// again once it has returned.
func (n *Node[K, ID, V]) Run(ctx context.Context) error {
	defer n.drop()
	defer n.claim.leave(ctx)
	defer n.stop(errNoShard)
	name := n.d.Cache + ":" + n.o.Member.DC + ":" + n.o.Member.Host
	for {
		err := n.leases.Hold(ctx, name, func(holding context.Context, _ uint64) error { return n.hold(ctx, holding) })
		wait := n.o.PingPeriod / 4
		switch {
		case ctx.Err() != nil:
			n.report(ctx, "the node was stopped", nil)
			return nil
		case errors.Is(err, errOusted):
			n.report(ctx, "the node has lost its shard", err)
			n.stop(err)
			return err
		case errors.Is(err, ErrMoved):
			n.drop()
			n.report(ctx, "the layout of the data centre has changed", nil)
		case errors.Is(err, lease.ErrLost):
			n.report(ctx, "the claim wasn't renewed in time", err)
		case errors.Is(err, ErrNoLayout):
			n.report(ctx, "the data centre has no layout for this cache yet", nil)
			wait = n.o.PingPeriod
		default:
			n.report(ctx, "no shard can be claimed", err)
			wait = n.o.PingPeriod / 2
			if n.load == nil {
				wait = n.o.TTL / 2 // after an outage those that have loaded a shard claim theirs before others do
			}
		}
		pace.Sleep(ctx, pace.Jitter(wait))
	}
}

// hold answers for the claimed shard until holding ends. ctx is that of Run.
func (n *Node[K, ID, V]) hold(ctx, holding context.Context) error {
	c, token := n.claim.current()
	if n.load != nil && n.load.Shard != c.Shard && n.load.Generation == c.Generation &&
		slices.Equal(n.load.Starts, c.Starts) {
		return fmt.Errorf("%w: there is only shard %d, in place of %d", errOusted, c.Shard, n.load.Shard)
	}
	if n.load != nil && n.load.Interval != c.Interval {
		n.drop()
	}
	again := n.load != nil
	n.o.Observer.Claimed(c)
	n.o.Logger.InfoContext(ctx, "claimed a shard", "shard", c.Shard, "interval", c.Interval, "incarnation",
		c.Incarnation)
	if n.load == nil {
		n.report(ctx, "the shard is loading", nil)
		n.claim.keep(true, false)
		n.load = startLoad(ctx, n.source, c, &n.o)
	}
	err := n.serve(holding, c, token, again)
	if ctx.Err() != nil || !n.o.KeepServing {
		n.stop(err)
		n.claim.keep(true, false) // it isn't reported as loaded before it is refreshed
	}
	return err
}

// serve makes Get answer once the shard is loaded and, if it was claimed again, refreshed. It returns when ctx, that of
// the claim, has ended.
func (n *Node[K, ID, V]) serve(ctx context.Context, c Claimed, token string, again bool) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.load.ready:
	}
	if again {
		n.refresh(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	n.claim.keep(true, true)
	if err := n.announce(ctx, token); errors.Is(err, lease.ErrLost) {
		return err
	} // after another error the next renewal announces it
	n.serving.Store(&serving[K, ID, V]{Claimed: c, load: n.load, err: ctx.Err, keep: n.o.KeepServing,
		until: func() time.Time {
			until, _ := lease.Deadline(ctx)
			return until
		}})
	n.o.Logger.InfoContext(ctx, "the node answers for its shard", "shard", c.Shard, "incarnation", c.Incarnation)
	<-ctx.Done()
	return context.Cause(ctx)
}

// refresh returns when the source has the changes that were made while there was no claim, or when ctx ends.
func (n *Node[K, ID, V]) refresh(ctx context.Context) {
	s, ok := n.source.(Refresher)
	if !ok {
		return
	}
	n.report(ctx, "the node reads what it has missed", nil)
	for ctx.Err() == nil {
		err := s.Refresh(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			n.o.Logger.WarnContext(ctx, "the source cannot be refreshed, trying again", "error", err)
			pace.Sleep(ctx, n.o.PingPeriod)
		}
	}
}

// announce renews the claim, which records that the shard is loaded.
func (n *Node[K, ID, V]) announce(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, n.o.PingPeriod)
	defer cancel()
	return n.o.Claims.Ping(ctx, n.o.Member, token, n.o.TTL, true)
}

// stop makes Get answer for no shard.
func (n *Node[K, ID, V]) stop(why error) {
	if n.serving.Swap(nil) != nil {
		n.o.Observer.Stopped(why)
	}
}

// drop removes the loaded values.
func (n *Node[K, ID, V]) drop() {
	n.stop(errNoShard)
	if n.load != nil {
		n.load.stop()
		n.load = nil
	}
	n.claim.keep(false, false)
}

var errNoShard = errors.New("the node has no shard")

// refused records why the node has no shard.
func (n *Node[K, ID, V]) refused(ctx context.Context, why error) {
	for _, reason := range []error{ErrSameHost, ErrUnsure} {
		if errors.Is(why, reason) {
			n.report(ctx, reason.Error(), nil)
			return
		}
	}
	n.report(ctx, "all shards of the data centre have nodes: this one is spare", nil)
}

// report records why the node doesn't answer, and logs it once.
func (n *Node[K, ID, V]) report(ctx context.Context, reason string, err error) {
	u := &unready{reason: reason, err: err}
	if last := n.why.Swap(u); last.reason != reason {
		n.o.Logger.InfoContext(ctx, "the node can't answer yet", "reason", u)
	}
}

// Ready returns nil if the node answers for a shard, and otherwise the reason why it doesn't.
func (n *Node[K, ID, V]) Ready() error {
	if s := n.serving.Load(); s != nil && s.check() == nil {
		return nil
	}
	return n.why.Load()
}

// Held returns the shard that the node answers for, and when its claim ends unless it is renewed; with KeepServing that
// can be in the past. ok reports whether there is a shard.
func (n *Node[K, ID, V]) Held() (c Claimed, until time.Time, ok bool) {
	s := n.serving.Load()
	if s == nil || s.check() != nil {
		return Claimed{}, time.Time{}, false
	}
	return s.Claimed, s.until(), true
}

type unobservedNode struct{}

func (unobservedNode) Answered(int, bool, time.Duration, error) {}
func (unobservedNode) Claimed(Claimed)                          {}
func (unobservedNode) Loaded(time.Duration, error)              {}
func (unobservedNode) Stopped(error)                            {}
