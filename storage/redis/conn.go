package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

// Conn is a connection to one Redis, whose nodes, retries, time limit and metrics all stores on it share. It may be
// used by many goroutines.
type Conn struct {
	client        rueidis.Client
	bulk          rueidis.Client // for large reads and replicated writes: see bulkOptions
	budget        *readBudget
	subscriptions *pubsub.Subscriptions
	prefix        string
	plainKeys     bool
	timeout       time.Duration
	kind          string
	replica       bool                 // may be one
	options       rueidis.ClientOption // of client
	moves         *moves               // nil: the address always has the same server
	stopSentinels func()               // ends the connecting to Sentinels
	adviser       refusal.Adviser
	unlike        looks // for a server that isn't as the options say
	readiness     readiness
	closed        atomic.Bool
	logger        *slog.Logger
	metrics       metrics
}

// ErrOptions is the error of Connect for options that can never work, such as a malformed URL.
var ErrOptions = errors.New("wrong options")

// Errors of Connect for servers that the scripts cannot run on.
var (
	ErrTooOld = errors.New("redis 7.0 or newer, or valkey, is needed")
	Err32Bit  = errors.New("a redis built for 64 bits is needed")
)

// Errors of Connect for servers that are of another sort than the options say.
var (
	ErrReplica  = errors.New("it is a replica")
	ErrSentinel = errors.New("it is a Sentinel")
	ErrCluster  = errors.New("it is a Cluster, in which plain keys of one record can have different slots")
	ErrProtocol = errors.New("not the protocol that the options name")
)

// Connect connects to Redis and checks that scripts can run there. While Redis can't be reached or is loading, Connect
// tries again until ctx ends, and so while a standalone Redis is a replica. It returns permanent errors, such as a
// wrong password, at once; their texts say what to change. Errors: ErrOptions, ErrTooOld, Err32Bit, ErrReplica,
// ErrSentinel, ErrCluster, ErrProtocol, and those of the connection.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	o, copts, err := o.checked()
	if err != nil {
		return nil, err
	}
	copts, moves := follow(copts)
	copts, stopSentinels := spaceSentinels(copts)
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("redis metrics: %w", err)
	}
	c := &Conn{
		prefix: o.KeyPrefix, plainKeys: o.PlainKeys, timeout: o.Timeout, options: copts, moves: moves, logger: o.Logger,
		stopSentinels: stopSentinels, metrics: m, adviser: newAdviser(o, copts), unlike: looks{every: identifyEvery},
		replica: o.Replica, budget: newReadBudget(o.LargeReadBytes, m), readiness: readiness{server: id.New()},
	}
	if err := c.connect(ctx, copts); err != nil {
		stopSentinels()
		return nil, fmt.Errorf("connect to redis at %s: %w", strings.Join(copts.InitAddress, ","), err)
	}
	c.kind = cmp.Or(o.Kind, string(c.client.Mode()))
	return c, nil
}

func newAdviser(o Options, c rueidis.ClientOption) refusal.Adviser {
	return refusal.Adviser{
		Option: cmp.Or(o.Option, "redis"), User: cmp.Or(c.Username, "default"), Prefix: o.KeyPrefix,
		Sentinel: c.Sentinel.MasterSet, Secrets: []string{c.Password, c.Sentinel.Password},
	}
}

// Check returns an error if Connect would return ErrOptions. It connects to nothing.
func (o Options) Check() error {
	_, _, err := o.checked()
	return err
}

func (o Options) checked() (Options, rueidis.ClientOption, error) {
	o, err := o.withDefaults()
	var client rueidis.ClientOption
	if err == nil {
		client, err = o.client()
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return o, client, err
}

func (c *Conn) connect(ctx context.Context, copts rueidis.ClientOption) error {
	wait := newBackOff()
	wait.MaxInterval = 2 * time.Second
	for {
		err := c.tryIdentified(ctx, copts)
		if err == nil || !transient(err) {
			return err
		}
		delay := wait.NextBackOff()
		c.logger.WarnContext(ctx, "redis isn't ready, trying again", "error", err, "delay", delay)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(delay):
		}
	}
}

// tryIdentified is tryConnect for servers of which it isn't known whether they are Redis. Its errors have advice.
func (c *Conn) tryIdentified(ctx context.Context, copts rueidis.ClientOption) error {
	if err := c.identify(ctx); err != nil {
		return err
	}
	err := c.adviser.Explain(c.tryConnect(ctx, copts))
	if err == nil || refusal.Advice(err) != "" {
		return err
	}
	if advice := c.adviser.OfNetwork(err); advice != "" {
		return refusal.Explained(err, advice)
	}
	return err
}

func (c *Conn) tryConnect(ctx context.Context, copts rueidis.ClientOption) error {
	client, err := rueidis.NewClient(copts)
	if err != nil {
		return err
	}
	c.client = client
	if err := c.checkFit(ctx); err != nil {
		client.Close()
		return err
	}
	if c.bulk, err = rueidis.NewClient(bulkOptions(copts, c.timeout)); err != nil {
		client.Close()
		return err
	}
	c.subscriptions = pubsub.New(ctx, client, func() backoff.BackOff { return newBackOff() }, c.owner)
	return nil
}

// Close closes all connections. Operations in progress return ErrUnavailable.
func (c *Conn) Close() {
	c.closed.Store(true)
	c.stopSentinels()
	c.subscriptions.Close()
	c.bulk.Close()
	c.client.Close()
	c.unlike.close()
	if c.moves != nil {
		c.moves.close()
	}
}

// Prefix returns the prefix of every key and topic.
func (c *Conn) Prefix() string { return c.prefix }

// PlainKeys reports whether keys of records have no braces.
func (c *Conn) PlainKeys() bool { return c.plainKeys }

// Timeout returns the time limit of an operation, its retries included.
func (c *Conn) Timeout() time.Duration { return c.timeout }

// Logger returns the logger of the options.
func (c *Conn) Logger() *slog.Logger { return c.logger }

// User returns the user of the connections, for texts.
func (c *Conn) User() string { return c.adviser.User }

// Explain returns an error of the connection whose text also says what to change, if that is known, and hides
// passwords. Errors of Retry are explained.
func (c *Conn) Explain(err error) error { return c.adviser.Explain(err) }

// Client returns the client for commands. All callers share one connection to each node, so that their requests share
// system calls. It doesn't retry: call it inside Retry.
func (c *Conn) Client() rueidis.Client { return c.client }

// Bulk returns the client for commands with large replies, which other requests then don't wait for. It doesn't retry:
// call it inside Retry.
func (c *Conn) Bulk() rueidis.Client { return c.bulk }

// Dial makes connections of the caller's own to the same Redis, with options that change adapts. The client doesn't
// retry: call it inside Retry. The caller closes it.
func (c *Conn) Dial(change func(*rueidis.ClientOption)) (rueidis.Client, error) {
	o := c.options
	change(&o)
	return rueidis.NewClient(o)
}

// Listen subscribes to a topic until stop is called, and returns at once. It subscribes again whenever the subscription
// ends: see package pubsub. A topic must have a hash tag; it may have any number of listeners. After stop has returned
// l isn't called any more.
func (c *Conn) Listen(topic string, l pubsub.Listener) (stop func()) {
	interrupted := l.Interrupted
	l.Interrupted = func(err error) {
		c.metrics.resubscribed()
		c.logger.Debug("listening was interrupted", "topic", topic, "error", err)
		if interrupted != nil {
			interrupted(err)
		}
	}
	return c.subscriptions.Listen(topic, l)
}

// LargeRead waits until the caller may read so many bytes, or the whole budget (Options.LargeReadBytes) if that is
// less. It returns the number of bytes granted; the caller must call release when it has read them. Reads queue in
// order of arrival, no more than two for one owner, such as a channel. The only error is that of ctx.
func (c *Conn) LargeRead(ctx context.Context, owner string, bytes int) (granted int, release func(), err error) {
	return c.budget.acquire(ctx, owner, bytes)
}
