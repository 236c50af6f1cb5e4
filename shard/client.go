package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Defaults of ClientOptions.
const (
	DefaultPingPeriod = time.Second
	DefaultTimeout    = time.Second
	DefaultRetries    = 1
)

// ErrNotRunning is the error of a Get after Run has returned.
var ErrNotRunning = errors.New("the client isn't running any more")

// ClientOptions configure a Client. The zero value of a field means its default.
type ClientOptions struct {
	Hosts     Hosts     // required
	Transport Transport // required

	PingPeriod time.Duration // between two pings of a host, and between two reads of Hosts. Default: DefaultPingPeriod
	Timeout    time.Duration // of each call of a node. Default: DefaultTimeout
	// of a call that timed out or failed with ErrUnavailable. Default: DefaultRetries; negative: none
	Retries int

	// LocalDC is the data centre of the client. If it is given, a Get asks the nodes there first. It asks the nodes of
	// other data centres when an answer takes longer than 95 % of recent ones, or longer than MaxHedge, and at once if
	// a local node fails, doesn't have the keys, or failed the last time. Default: all are asked at once.
	LocalDC  string
	MaxHedge time.Duration // Default: a tenth of Timeout

	// calls that continue after their Get has returned; the oldest are cancelled. Default: no bound, each ends with its
	// time-out
	MaxLate   int
	PingRate  float64 // pings a second, of all hosts. Default: no bound
	SkipPings bool    // of hosts that answered anything within PingPeriod

	Observer Observer     // Default: none
	Logger   *slog.Logger // Default: nothing is logged
}

// Observer receives the events of a Client, for metrics. Its methods may be called by many goroutines, and must not
// block.
type Observer interface {
	// First reports the first answer for some keys of a Get, and how long after the Get had asked for them.
	First(h Host, took time.Duration)
	// Failed reports a call without a usable answer: ErrNotMatched, ErrUnavailable, ErrTimeout, ErrBadAnswer,
	// ErrOtherCache, ErrUndecodable, and others.
	Failed(h Host, err error)
	// Late reports an answer that arrived after another one for the same keys.
	Late(h Host)
	// NoShard reports keys of a Get that no host has, when it begins to wait for one.
	NoShard(keys int)
	// Changed reports a change of the map: how many hosts there are now, and how many of them have a shard.
	Changed(hosts, assigned int)
}

// Client reads from the nodes of a cache. Its methods may be called by many goroutines.
type Client[K any, ID comparable, V any] struct {
	d           Description[K, ID, V]
	fleet       *fleet
	flights     *flights
	bytesPerKey atomic.Int64 // of the last encoded keys
}

// NewClient returns a Client.
func NewClient[K any, ID comparable, V any](d Description[K, ID, V], o ClientOptions) (*Client[K, ID, V], error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	f := newFleet(d.Cache, o)
	return &Client[K, ID, V]{d: d, fleet: f, flights: newFlights(f)}, nil
}

// Run reads the list of hosts and pings them every PingPeriod, until ctx ends. Then it cancels all calls, waits for
// them, and returns nil. It can be called once.
func (c *Client[K, ID, V]) Run(ctx context.Context) error {
	if err := c.fleet.run(ctx); err != nil {
		return err
	}
	c.flights.end()
	return nil
}

// Get returns the values of keys, by ID. Keys without a value are absent. It asks all replicas of each shard concerned,
// and returns with the first answer for the last key. Keys that are in no shard wait for one until ctx ends, so that
// ctx should have a deadline. Before Run is called no key is in a shard. A node's answer for all of its keys must fit
// into a message of the transport, which has 16 MiB with package rpc: read keys with large values in several Gets.
//
// Errors: *UnansweredError[K], with the values that were found; those of the codec of keys.
func (c *Client[K, ID, V]) Get(ctx context.Context, keys []K) (map[ID]V, error) {
	g := newGet(c, keys)
	if len(keys) == 0 {
		return g.values, nil
	}
	unanswered, lost, err := c.flights.get(ctx, g.sharding, g)
	if len(unanswered)+len(lost) == 0 {
		return g.values, nil
	}
	if _, ok := errors.AsType[*encodeError](err); ok {
		return nil, err
	}
	return g.values, g.unanswered(unanswered, lost, err)
}

func (d Description[K, ID, V]) check() error {
	if err := CheckName("cache", d.Cache); err != nil {
		return err
	}
	if d.ShardingKey == nil || d.EntryID == nil || d.Keys == nil || d.Values == nil {
		return fmt.Errorf("shard: the description of cache %s lacks a function or a codec", d.Cache)
	}
	return nil
}

func (o ClientOptions) withDefaults() (ClientOptions, error) {
	if o.Hosts == nil || o.Transport == nil {
		return o, errors.New("shard: a client needs hosts and a transport")
	}
	if min(o.PingPeriod, o.Timeout, o.MaxHedge) < 0 || o.MaxLate < 0 || o.PingRate < 0 {
		return o, errors.New("shard: a duration or bound of the client is negative")
	}
	if o.PingPeriod == 0 {
		o.PingPeriod = DefaultPingPeriod
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Retries == 0 {
		o.Retries = DefaultRetries
	}
	if o.MaxHedge == 0 {
		o.MaxHedge = o.Timeout / 10
	}
	if o.Observer == nil {
		o.Observer = unobservedClient{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

type unobservedClient struct{}

func (unobservedClient) First(Host, time.Duration) {}
func (unobservedClient) Failed(Host, error)        {}
func (unobservedClient) Late(Host)                 {}
func (unobservedClient) NoShard(int)               {}
func (unobservedClient) Changed(int, int)          {}
