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

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
)

// Store keeps channels in Redis. It may be used by many goroutines.
type Store struct {
	client        rueidis.Client
	bulk          rueidis.Client // for large reads and replicated writes: see bulkOptions
	budget        *budget
	subscriptions *subscriptions
	listening     context.Context //nolint:containedctx // of what outlives the call that begins it
	keys          keyspace
	timeout       time.Duration
	notifyBytes   int
	kind          string
	server        string // names this store among those on the same Redis
	readiness     readiness
	closed        atomic.Bool
	logger        *slog.Logger
	metrics       metrics
}

var _ channel.Store = (*Store)(nil)

// ErrOptions is the error of Open for options that can never work, such as a URL that can't be read.
var ErrOptions = errors.New("redis options")

// What Open finds wrong with a server.
var (
	ErrTooOld = errors.New("redis 7.0 or newer, or valkey, is needed")
	Err32Bit  = errors.New("a redis built for 64 bits is needed")
)

// Open connects to Redis and checks that scripts can run there. While Redis can't be reached or is loading it tries again
// until ctx ends; what trying again can't mend, such as a wrong password, is returned at once. Errors: ErrOptions,
// ErrTooOld, Err32Bit, and what the connection or the options give. Close ends what it began.
func Open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	copts, err := o.client()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("redis metrics: %w", err)
	}
	s := &Store{
		keys: keyspace{prefix: o.KeyPrefix}, timeout: o.Timeout, notifyBytes: o.NotifyBytes,
		listening: context.WithoutCancel(ctx),
		server:    ulid.Make().String(), logger: o.Logger, metrics: m, budget: newBudget(o.LargeFetchBytes, m),
	}
	if err := s.connect(ctx, copts); err != nil {
		return nil, fmt.Errorf("connect to redis at %s: %w", strings.Join(copts.InitAddress, ","), err)
	}
	s.kind = cmp.Or(o.Kind, string(s.client.Mode()))
	return s, nil
}

func (s *Store) connect(ctx context.Context, copts rueidis.ClientOption) error {
	wait := newBackOff()
	wait.MaxInterval = 2 * time.Second
	for {
		err := s.tryConnect(ctx, copts)
		if err == nil || !transient(err) {
			return err
		}
		delay := wait.NextBackOff()
		s.logger.WarnContext(ctx, "redis isn't ready, trying again", "error", err, "delay", delay)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(delay):
		}
	}
}

func (s *Store) tryConnect(ctx context.Context, copts rueidis.ClientOption) error {
	client, err := rueidis.NewClient(copts)
	if err != nil {
		return err
	}
	s.client = client
	if err := s.checkFit(ctx); err != nil {
		client.Close()
		return err
	}
	if s.bulk, err = rueidis.NewClient(bulkOptions(copts, s.timeout)); err != nil {
		client.Close()
		return err
	}
	s.subscriptions = newSubscriptions(client)
	return nil
}

// Close ends the store's connections. Operations that run get ErrUnavailable.
func (s *Store) Close() {
	s.closed.Store(true)
	s.subscriptions.close()
	s.bulk.Close()
	s.client.Close()
}

func (s *Store) channel(name string) channelKeys { return s.keys.channel(name) }
