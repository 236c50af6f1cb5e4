package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/lifecycle"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/storage/managed"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
	"github.com/tidemark-dev/tidemark/storage/redis/records"
)

// redisLabel is the label of metrics for the Redis that they describe: that of channels, or another.
const redisLabel = "redis"

// stores are the open stores.
type stores struct {
	conn     *redis.Conn     // to the Redis of the channels
	tickets  *redis.Conn     // to the Redis of the tickets: conn, unless they have one of their own
	channels *channels.Store // on conn
	lookup   *queues.Lookup  // on conn
	queues   *queues.Store   // on tickets; nil: no matchmaking
	records  records.Instances
	receipts receipts
	metrics  *metrics.Queues
	storage  storage.Description
}

// openStores connects to all Redis that are configured, and logs what it found. Stopping the service closes them.
func openStores(ctx context.Context, c config.Config, needs storeNeeds) (stores, error) {
	conn, options, err := connectChannels(ctx, c, needs)
	if err != nil {
		return stores{}, err
	}
	needs.parts.OnStop(conn.Close)
	s := stores{conn: conn, tickets: conn, lookup: queues.NewLookup(conn)}
	if s.channels, err = channels.New(conn, channels.Options{Metrics: options.Metrics}); err != nil {
		return stores{}, err
	}
	needs.parts.OnStop(s.channels.Close)
	if s.storage, err = ofChannels.require(ctx, c, conn, needs.log); err != nil {
		return stores{}, err
	}
	if s.receipts, err = openReceipts(ctx, c, s.channels, needs.parts); err != nil {
		return stores{}, err
	}
	if s.records, err = openRecordsRedis(ctx, c, conn, needs); err != nil {
		return stores{}, err
	}
	return s, s.openQueues(ctx, c, options, needs)
}

// openQueues opens the store of tickets and queues, unless matchmaking is off. options are those of the channels'
// Redis.
func (s *stores) openQueues(ctx context.Context, c config.Config, options redis.Options, needs storeNeeds) (err error) {
	if !c.Matchmaking.On {
		return nil
	}
	if c.Matchmaking.Redis != "" {
		tickets := ofTickets(c)
		if options, err = tickets.options(c, needs); err != nil {
			return err
		}
		if s.tickets, _, err = tickets.connect(ctx, c, options, needs); err != nil {
			return err
		}
	}
	if s.metrics, err = metrics.NewQueues(needs.metrics); err != nil {
		return fmt.Errorf("matchmaking metrics: %w", err)
	}
	s.queues = queues.New(s.tickets, queues.Options{
		Replicas: readReplicas(c.Matchmaking, options), Confirmations: c.Matchmaking.Replicas,
		Slowed: s.metrics.CreatePaused,
	})
	needs.parts.OnStop(s.queues.Close)
	return nil
}

// receipts are the keys of receipts.
type receipts struct {
	ring   *receipt.Keyring
	lookUp func(context.Context) error // see channel.Options
}

// openReceipts returns the configured keys, or those that the servers share, which a part of the service keeps up to
// date.
func openReceipts(ctx context.Context, c config.Config, store *channels.Store, parts *lifecycle.Stack) (receipts,
	error) {
	if len(c.Receipts.Keys) > 0 {
		ring, err := receipt.NewKeyring(c.Receipts.Keys...)
		return receipts{ring: ring}, err
	}
	shared, err := store.ReceiptKeys(ctx)
	if err != nil {
		return receipts{}, fmt.Errorf("get the receipt keys that the servers share: %w", err)
	}
	parts.Run(ctx, "receipt keys", shared.Run)
	return receipts{ring: shared.Keyring, lookUp: shared.LookUp}, nil
}

// another is a Redis beside that of the channels. User and Sentinels are those of its URL, and so is the password,
// unless there is a file with it.
type another struct {
	key string // YAML key of the option that names it
	url string
	of  string // its contents, for the log and as the label of metrics

	password config.PasswordFile

	replica bool // a replica will do, since nothing is written
}

// ofChannels is the Redis of the channels, whose options are apart.
var ofChannels = another{key: "redis", of: "channels"}

// ofTickets returns the Redis of tickets and queues, if there is one beside that of the channels.
func ofTickets(c config.Config) another {
	return another{key: "ticketsRedis", url: c.Matchmaking.Redis, of: "tickets", password: c.Matchmaking.PasswordFile}
}

// ofSessions returns the Redis of sessions, if there is one beside that of the channels.
func ofSessions(c config.Config) another {
	s := c.Records.Sessions
	return another{key: "sessionsRedis", url: s.Redis, of: "sessions", password: s.PasswordFile}
}

// ofCache returns the Redis of caches, if there is one beside that of the channels.
func ofCache(c config.Config) another {
	cache := c.Records.Cache
	return another{key: "cacheRedis", url: cache.Redis, of: "cache", password: cache.PasswordFile}
}

// kept returns what an eviction deletes, although it must stay; "": only values of caches.
func (a another) kept() string {
	switch a.of {
	case "channels", ofShards:
		return "messages, clocks, locks, settings and claims of shards"
	case "tickets":
		return "tickets, matches and assignments"
	case "sessions":
		return "sessions and tokens"
	}
	return ""
}

// mustKeep returns an error if a Redis evicts what must stay, and logs that it isn't known.
func (a another) mustKeep(ctx context.Context, found storage.Description, log *slog.Logger) error {
	evicts, known := found.Durability.Evicts()
	if evicts {
		return fmt.Errorf("%s: evicts (maxmemory-policy %s): when its memory runs out, %s are deleted; "+
			"set maxmemory-policy to noeviction", a.key, found.Durability.EvictionPolicy, a.kept())
	}
	if !known {
		log.WarnContext(ctx, "the Redis doesn't tell whether it evicts: see that its maxmemory-policy is noeviction",
			"option", a.key, "keeps", a.kept())
	}
	return nil
}

// flagOf returns the name of the flag for a YAML key.
func flagOf(key string) string {
	return regexp.MustCompile("[A-Z]").ReplaceAllStringFunc(strings.TrimPrefix(key, "--"), func(letter string) string {
		return "-" + strings.ToLower(letter)
	})
}

func (a another) options(c config.Config, needs storeNeeds) (redis.Options, error) {
	o := redis.Options{
		URL: a.url, Option: flagOf(a.key), KeyPrefix: c.Redis.KeyPrefix, Timeout: c.Redis.Timeout, Logger: needs.log,
		Replica: a.replica, PlainKeys: c.Records.PlainKeys && a.of != "tickets",
		Metrics: prometheus.WrapRegistererWith(prometheus.Labels{redisLabel: a.of}, needs.metrics),
	}
	var err error
	if a.password != "" {
		o.ReadPassword = a.password.Read
		if o.Password, err = a.password.Read(); err != nil {
			return o, &cli.UsageError{Err: fmt.Errorf("%sPasswordFile: %w", a.key, err)}
		}
	}
	if !strings.HasPrefix(o.URL, "rediss://") {
		return o, nil
	}
	secured := c.Redis
	secured.TLS.Name = "" // it is that of --redis
	if o.TLS, err = secured.TLSConfig(); err != nil {
		return o, &cli.UsageError{Err: err}
	}
	return o, nil
}

// connect connects to it, and checks its configuration. Stopping the service closes the connection.
func (a another) connect(ctx context.Context, c config.Config, o redis.Options, needs storeNeeds) (*redis.Conn,
	storage.Description, error) {
	conn, err := connect(ctx, a.key, o, c.Redis.ConnectTimeout)
	if err != nil {
		return nil, storage.Description{}, err
	}
	needs.parts.OnStop(conn.Close)
	found, err := a.require(ctx, c, conn, needs.log)
	return conn, found, err
}

// require returns an error if a service can't work on a Redis, and logs what it found.
func (a another) require(ctx context.Context, c config.Config, conn *redis.Conn, log *slog.Logger) (
	storage.Description, error) {
	found, err := conn.Inspect(ctx)
	if err != nil {
		return found, fmt.Errorf("%s: look at its storage: %w", a.key, err)
	}
	if a.replica {
		return found, nil // it is only read
	}
	if a.kept() != "" {
		a.logStorage(ctx, log, found, warningsOf(c, a, found))
		if err := a.mustKeep(ctx, found, log); err != nil {
			return found, err
		}
	}
	if err := requireAbilities(ctx, c, a.of, conn, log); err != nil {
		return found, fmt.Errorf("%s: %w", a.key, err)
	}
	return found, nil
}

// connected is a Redis that is used.
type connected struct {
	of   string // its contents
	conn *redis.Conn
}

// each returns each Redis once, that of the channels first.
func (s stores) each() []connected {
	all := []connected{{ofChannels.of, s.conn}}
	for _, other := range []connected{{"tickets", s.tickets}, {"sessions", s.records.Sessions}, {"cache", s.records.Cache}} {
		if other.conn != nil && other.conn != s.conn {
			all = append(all, other)
		}
	}
	return all
}

// readReplicas returns the options to read from replicas of the Redis of o, or nil if tickets are read from the
// primary.
func readReplicas(m config.Matchmaking, o redis.Options) *redis.Options {
	switch {
	case !readsReplicas(m):
		return nil
	case m.ReadReplicas != "on":
		o.URL, o.Sentinel = m.ReadReplicas, redis.Sentinel{}
	}
	return &o
}

// readsReplicas reports whether tickets are read from replicas.
func readsReplicas(m config.Matchmaking) bool { return m.ReadReplicas != "" && m.ReadReplicas != "off" }

// ready returns an error unless all Redis, and the notification path, answer. Its OutOfReach names those that don't.
func (s stores) ready(ctx context.Context) error {
	instances := s.each()
	errs := make([]error, len(instances))
	var checks sync.WaitGroup
	for i, r := range instances {
		checks.Go(func() { errs[i] = r.conn.Ready(ctx) })
	}
	checks.Wait()
	var failed *fault.Error
	for i, err := range errs {
		if err == nil {
			continue
		}
		var f *fault.Error
		if !errors.As(err, &f) {
			return err
		}
		if failed == nil {
			failed = f.WithCause(errors.Join(errs...))
			failed.OutOfReach = nil
		}
		if len(f.OutOfReach) == 0 {
			failed.OutOfReach = append(failed.OutOfReach, instances[i].of)
		}
		for _, slots := range f.OutOfReach {
			failed.OutOfReach = append(failed.OutOfReach, instances[i].of+" slots "+slots)
		}
	}
	if failed == nil {
		return nil
	}
	return failed
}

// storeNeeds is the dependencies of all stores besides the configuration.
type storeNeeds struct {
	log     *slog.Logger
	metrics prometheus.Registerer
	parts   *lifecycle.Stack
}

// channelsOptions returns the options of the Redis of the channels. Without a URL it is the managed one.
func channelsOptions(c config.Config, needs storeNeeds) (redis.Options, error) {
	o := redis.Options{
		URL: c.Redis.Address, Username: c.Redis.Username, Password: c.Redis.Password,
		Sentinel: redis.Sentinel{
			Master: c.Redis.Sentinel.Master, Username: c.Redis.Sentinel.Username, Password: c.Redis.Sentinel.Password,
		},
		KeyPrefix: c.Redis.KeyPrefix, PlainKeys: c.Records.PlainKeys, Timeout: c.Redis.Timeout,
		Logger: needs.log, Metrics: prometheus.WrapRegistererWith(prometheus.Labels{redisLabel: "channels"},
			needs.metrics),
	}
	if c.Redis.PasswordFile != "" {
		o.ReadPassword = c.Redis.PasswordFile.Read
	}
	if c.Redis.Sentinel.PasswordFile != "" {
		o.Sentinel.ReadPassword = c.Redis.Sentinel.PasswordFile.Read
	}
	var err error
	if o.TLS, err = c.Redis.TLSConfig(); err != nil {
		return o, &cli.UsageError{Err: err}
	}
	return o, nil
}

// connectChannels connects to the configured Redis, or to one that it starts. It returns the options to connect again.
func connectChannels(ctx context.Context, c config.Config, needs storeNeeds) (*redis.Conn, redis.Options, error) {
	o, err := channelsOptions(c, needs)
	if err != nil {
		return nil, o, err
	}
	if o.URL == "" {
		if o.URL, err = startManaged(ctx, c.Managed, needs); err != nil {
			return nil, o, err
		}
		o.Kind = "managed"
	}
	conn, err := connect(ctx, "redis", o, c.Redis.ConnectTimeout)
	return conn, o, err
}

// connectRunning connects to the configured Redis, or to the one that a service on this machine runs. It returns the
// options to connect again.
func connectRunning(ctx context.Context, c config.Config, needs storeNeeds) (*redis.Conn, redis.Options, error) {
	o, err := ofChannels.optionsOf(c, needs)
	if err != nil {
		return nil, o, err
	}
	conn, err := connect(ctx, ofChannels.key, o, c.Redis.ConnectTimeout)
	return conn, o, err
}

// connect connects to a Redis, and gives up after patience. key is the YAML key of the option that names its Redis.
func connect(ctx context.Context, key string, o redis.Options, patience time.Duration) (*redis.Conn, error) {
	reach, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := redis.Connect(reach, o)
	switch {
	case errors.Is(err, redis.ErrOptions):
		return nil, &cli.UsageError{Err: fmt.Errorf("%s: %w", key, err)}
	case err != nil && reach.Err() != nil:
		return nil, fmt.Errorf("%s: gave up after %s (redisConnectTimeout): %w", key, patience, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return conn, nil
}

// startManaged starts a Redis as a part of the service, and returns its address when it answers. There is no time
// limit, since loading a large data set takes long.
func startManaged(ctx context.Context, c config.Managed, needs storeNeeds) (address string, err error) {
	m, err := managed.Open(managed.Options{DataDir: c.DataDir, Binary: c.Binary, Logger: needs.log})
	if err != nil {
		return "", err
	}
	needs.parts.Run(ctx, "managed redis", m.Run)
	if err := m.Ready(ctx); err != nil {
		return "", err
	}
	return m.Address(), nil
}
