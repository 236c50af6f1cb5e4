package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/lifecycle"
	"github.com/tidemark-dev/tidemark/internal/program/compose"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	shown "github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/storage"
	stored "github.com/tidemark-dev/tidemark/storage/redis/access"
)

// serve runs the service until ctx ends or a part of it fails. It stops its parts in this order: the server, which
// answers the requests in flight; matchmaking, which completes the matches that it has begun; the channel service; the
// stores; the managed Redis.
func serve(ctx context.Context, c config.Config, r reloads, b *logBuffer) error {
	log, level := b.logger(c)
	r.level = level
	return untilStopped(ctx, b, log, func(needs partNeeds) error { return startParts(ctx, c, r, needs) })
}

// untilStopped starts parts, and stops them, the last first, when ctx ends or one of them fails. Their log goes to b.
func untilStopped(ctx context.Context, b *logBuffer, log *slog.Logger, start func(partNeeds) error) (err error) {
	parts, metrics := lifecycle.New(ctx), prometheus.NewRegistry()
	b.register(metrics)
	registerBuild(metrics)
	defer func() {
		if stopped := parts.Stop(); !errors.Is(stopped, err) || err == nil {
			err = errors.Join(err, stopped) // else it is err itself, from the part that failed
		}
	}()
	err = start(partNeeds{log: log, metrics: metrics, parts: parts})
	switch {
	case err != nil && ctx.Err() != nil:
		log.InfoContext(ctx, "stopped before everything was started")
		return nil
	case err != nil:
		return err
	}
	debug.FreeOSMemory() // of the start, most of which is not needed again
	parts.Run(ctx, "memory", returnMemory)
	notify(ctx, daemon.SdNotifyReady, log)
	parts.Wait(ctx)
	notify(ctx, notifyStopping, log)
	log.InfoContext(ctx, "stopping")
	return nil
}

// partNeeds is the dependencies of all parts besides the configuration.
type partNeeds struct {
	log     *slog.Logger
	metrics *prometheus.Registry
	parts   *lifecycle.Stack
}

// startParts starts all parts of the service, the lowest first.
func startParts(ctx context.Context, c config.Config, r reloads, needs partNeeds) error {
	log, metrics, parts := needs.log, needs.metrics, needs.parts
	tracer, err := openTracing(ctx, c, needs)
	if err != nil {
		return err
	}
	logAccess(ctx, c.Access, log)
	on, err := newListening(c, log)
	if err != nil {
		return err
	}
	if err := on.check(ctx, log); err != nil {
		return err // without starting a managed Redis
	}
	setMemory(ctx, c.Redis.Address == "", log)
	stores, err := openStores(ctx, c, storeNeeds{log: log, metrics: metrics, parts: parts})
	if err != nil {
		return err
	}
	service, err := newService(c, stores, log)
	if err != nil {
		return err
	}
	if err := errors.Join(shown.RegisterLags(needs.metrics, service.Lags), on.register(needs.metrics)); err != nil {
		return err
	}
	parts.Run(ctx, "channel service", service.Run)
	known, err := openCredentials(ctx, c, stores, needs)
	if err != nil {
		return err
	}
	kept, err := startRecords(ctx, c, stores, service, known, needs)
	if err != nil {
		return err
	}
	matches, err := startMatchmaking(ctx, c, matchmakingNeeds{
		queues: stores.queues, lookup: stores.lookup, channels: service, token: known.offer(),
		follow: follow(tracer), log: log, counts: stores.metrics, metrics: metrics, parts: parts,
	})
	if err != nil {
		return err
	}
	compared, err := startComparing(ctx, c, stores.channels, needs)
	if err != nil {
		return err
	}
	reloads := newReloader(c, r, needs)
	options := serverOptions(ctx, c, stores, needs)
	options.Reload, options.Configuration = reloads.serve, reloads.configuration
	options.Differences = compared.shown
	examined := startStatus(ctx, c, stores, compared, needs, &options)
	options.Service, options.Tracer = service, tracer
	if kept != nil {
		options.Records = &kept.API
	}
	var owners access.Owners
	if matches != nil {
		options.Matchmaking, options.Fetcher, owners = matches, matches.fetcher, matches
	}
	if options.Guard, err = known.guard(owners); err != nil {
		return err
	}
	if options.Keys, err = known.administered(stores, log); err != nil {
		return err
	}
	served := server.New(options)
	reloads.apply = reloadable{channels: service, guard: options.Guard, matches: matches, compared: compared,
		examined: examined, server: served}.apply
	if err := listenAndServe(ctx, served, on, needs, compared.listening); err != nil {
		return err
	}
	needs.parts.Run(ctx, "reloads", reloads.run)
	return nil
}

// serverOptions returns the options of the server, but for the services that it serves.
func serverOptions(ctx context.Context, c config.Config, s stores, needs partNeeds) server.Options {
	return server.Options{
		Reserved: []string{tier.ChannelPrefix}, // other services on the same Redis may announce there
		Storage:  func() storage.Description { return s.storage }, StorageWarnings: warningsOf(c, ofChannels, s.storage),
		Ready:   s.ready,
		Version: thisBuild().version,
		CORS:    server.CORS{AllowOrigins: c.Server.CORSOrigins}, AllowHosts: c.Server.AllowHosts,
		OldPrefix: c.Server.OldPrefix, DurableStreams: c.Server.DurableStreams,
		Limits: server.Limits{
			MaxBodyBytes: int64(c.Server.MaxBodyBytes), BodyMemory: int64(c.Server.BodyMemory),
			AnswerMemory:   int64(c.Server.AnswerMemory),
			MaxConnections: connections(ctx, c.Server.MaxConnections, needs.log), MaxStreams: c.Server.MaxStreams,
			IdleTimeout: c.Server.IdleTimeout, StreamAge: c.Server.StreamAge,
			MaxGRPCBytes: c.GRPC.MessageBytes, QueryPage: c.GRPC.QueryPage,
		},
		Clients: server.Clients{
			Limits: limits.Options{
				Users: c.Access.UserLimits, Addresses: c.Access.AddressLimits, Quotas: c.Access.Quotas,
				Store: stored.NewQuotas(s.conn),
			},
			TrustProxies: c.Access.TrustProxies,
		},
		Grace: max(c.Server.Grace, time.Nanosecond), DrainDelay: c.Server.DrainDelay, // 0 would mean the default
		Logger: needs.log, Metrics: needs.metrics,
	}
}

// listenAndServe starts a server on its listeners, as a part of the service, and passes their URLs to opened.
func listenAndServe(ctx context.Context, s *server.Server, on listening, needs partNeeds, opened func(...string)) error {
	l, err := on.open(ctx)
	if err != nil {
		return err
	}
	if l.Admin != nil && isLocal(l.Admin.Addr()) && l.Admin.Addr().Network() == "tcp" {
		l.Console = on.urlOf(l.Admin.Addr()) + "/"
	}
	needs.parts.Run(ctx, "server", func(ctx context.Context) error { return s.Run(ctx, l) })
	if err := startWatchdog(ctx, watched(on, l.HTTP, l.Admin), needs); err != nil {
		return err
	}
	ready, urls := []any{"url", on.urlOf(l.HTTP.Addr()), "version", thisBuild().version}, []string{on.urlOf(l.HTTP.Addr())}
	if l.GRPC != nil {
		ready = append(ready, "grpc", l.GRPC.Addr().String())
	}
	for _, service := range slices.Sorted(maps.Keys(l.OpenMatch)) {
		ready = append(ready, service, l.OpenMatch[service].Addr().String())
	}
	if l.Admin != nil {
		ready, urls = append(ready, "admin", on.urlOf(l.Admin.Addr())), append(urls, on.urlOf(l.Admin.Addr()))
	}
	opened(urls...)
	needs.log.InfoContext(ctx, "tidemark is ready", ready...)
	return nil
}

func newService(c config.Config, s stores, log *slog.Logger) (*channel.Service, error) {
	policies, err := channel.NewPolicies(c.Channel, c.ChannelRules())
	if err != nil {
		return nil, err
	}
	o := channel.Options{Store: s.channels, Receipts: s.receipts.ring, LookUp: s.receipts.lookUp, Policies: policies,
		Limits: c.Limits, Logger: log}
	if c.Copies() {
		o.Copies = compose.Announcer(s.conn, c.Records.Site.Sources)
	}
	return channel.NewService(o)
}

// logStorage logs the kind and durability of a Redis, and warnings about it.
func (a another) logStorage(ctx context.Context, log *slog.Logger, s storage.Description, warnings []string) {
	if a.key != ofChannels.key {
		log = log.With("of", a.of)
	}
	log.InfoContext(ctx, "storage found", "kind", s.Kind, "product", s.Product, "version", s.Version,
		"durability", string(s.Durability.Level), "meaning", meaning(s.Durability.Level), "replicas",
		s.Durability.Replicas)
	for _, warning := range warnings {
		log.WarnContext(ctx, warning)
	}
}

// meaning returns the guarantee of a durability level.
func meaning(level storage.DurabilityLevel) string {
	switch level {
	case storage.DurableAlways:
		return "what was answered survives a crash of the machine"
	case storage.DurableEverysec:
		return "a crash of the machine can lose about the last second; so can a crash of Redis alone while the disk is slow"
	case storage.DurableSnapshot:
		return "a crash can lose everything since the last snapshot"
	case storage.DurableMemory:
		return "a restart of Redis loses everything, since it keeps no file"
	case storage.DurableUnknown:
	}
	return "the storage doesn't report its durability"
}
