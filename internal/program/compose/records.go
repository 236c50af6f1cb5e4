// Package compose builds the services of records on their stores, for the program and for the tests of all layers.
package compose

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	server "github.com/tidemark-dev/tidemark/internal/api/records"
	"github.com/tidemark-dev/tidemark/internal/lifecycle"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/keyset"
	"github.com/tidemark-dev/tidemark/internal/records/locks"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
	"github.com/tidemark-dev/tidemark/internal/records/tokens"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
)

// Needs is the dependencies of the services of records.
type Needs struct {
	Config   config.RecordOptions
	Shards   config.ShardOptions
	Redis    redisrecords.Instances
	Channels *channel.Service
	Copies   bool               // messages of channels must be copied to followers
	Revoked  access.Revocations // of subjects and sessions; nil: none are revoked
	Parts    *lifecycle.Stack   // runs background tasks of services, and closes their resources
	Log      *slog.Logger
	Metrics  prometheus.Registerer
}

// Records are the services of records.
type Records struct {
	API server.Options // the services that the server calls

	needs    Needs
	metrics  *metrics.Records
	sessions *sessions.Service
}

// Open builds the services, and starts their background tasks.
func Open(ctx context.Context, n Needs) (*Records, error) {
	metrics, err := metrics.NewRecords(n.Metrics)
	if err != nil {
		return nil, err
	}
	known, err := openSessions(n, metrics)
	if err != nil {
		return nil, err
	}
	r := &Records{needs: n, metrics: metrics, sessions: known}
	r.API.Kinds, r.API.Sessions = n.Config.Site.Table, known
	r.openLocks(n)
	if err := r.openTokens(n); err != nil {
		return nil, err
	}
	r.API.Settings = records.NewSettings(redisrecords.NewSettings(n.Redis.Of(records.SettingKind)), n.Channels)
	r.openCounters(ctx, n)
	if err := r.openCache(ctx, n); err != nil {
		return nil, err
	}
	return r, nil
}

// openLocks builds the service of locks.
func (r *Records) openLocks(n Needs) {
	service := locks.New(locks.Options{
		Store: redisrecords.NewLocks(n.Redis.Records), Operations: n.Config.Site.Operations,
		MaxWait: n.Channels.Limits().MaxWait, Metrics: r.metrics,
	})
	n.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidemark_lock_waits", Help: "Requests that wait for a lock.",
	}, func() float64 { return float64(service.Waiting()) }))
	r.API.Locks = service
}

// openTokens builds the service of tokens.
func (r *Records) openTokens(n Needs) error {
	o := tokens.Options{Store: redisrecords.NewTokens(n.Redis.Of(records.VerificationKind)),
		Providers: n.Config.OAuth.Providers}
	if path := n.Config.OAuth.Keyset; path != "" {
		keys, err := keyset.Open(path)
		if err != nil {
			return err
		}
		o.Sealer = keys
	}
	service, err := tokens.New(o)
	if err != nil {
		return err
	}
	r.API.Verifications, r.API.OAuth = service, service
	return nil
}

// openCounters opens views, states and statistics.
func (r *Records) openCounters(ctx context.Context, n Needs) {
	store := redisrecords.NewCounters(n.Redis.Records)
	views := records.NewViews(store, n.Log)
	n.Parts.Run(ctx, "views", views.Run)
	r.API.Views, r.API.States = views, records.NewStates(store.States())
	r.API.Stats = records.NewStats(store, n.Config.Site.Statistics)
}
