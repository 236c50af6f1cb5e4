package compose

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/followers"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
)

// Announcer returns the receiver of the channel service's announcements of messages to be copied to followers.
func Announcer(conn *redis.Conn, sources followers.Sources) *followers.Announcer {
	return followers.NewAnnouncer(redisrecords.NewCopies(conn), sources)
}

// openFollowers opens the followers, and starts copying messages to them if a rule requires it.
func (r *Records) openFollowers(ctx context.Context, n Needs, store records.CacheStore) error {
	service := followers.New(followers.NewCached(store, r.metrics), n.Config.Site.Sources)
	r.API.Followers = service
	if !n.Copies {
		return nil
	}
	manager, err := lease.NewManager(leases.New(n.Redis.Records), lease.Options{Logger: n.Log})
	if err != nil {
		return fmt.Errorf("copies to followers: %w", err)
	}
	counted := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_copies_total", Help: "Copies of messages to followers, by their outcome.",
	}, []string{"outcome"})
	for _, o := range []followers.Outcome{followers.Delivered, followers.Duplicate, followers.Differs,
		followers.Refused, followers.Expired, followers.Purged, followers.Damaged} {
		counted.WithLabelValues(string(o))
	}
	job := followers.NewJob(followers.Options{
		Store: redisrecords.NewCopies(n.Redis.Records), Channels: n.Channels, Followers: service, Leases: manager,
		Metrics: counter{counted}, Logger: n.Log,
	})
	n.Metrics.MustRegister(counted,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_copies_lag_seconds",
			Help: "For how long the oldest message that is being copied to followers has waited.",
		}, func() float64 { return job.Lag().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_copies_channels", Help: "Channels whose messages this server copies to followers.",
		}, func() float64 { return float64(job.Pending()) }))
	n.Parts.Run(ctx, "copies to followers", job.Run)
	return nil
}

// counter counts copies.
type counter struct{ *prometheus.CounterVec }

// Count implements followers.Metrics.
func (c counter) Count(o followers.Outcome, n int) { c.WithLabelValues(string(o)).Add(float64(n)) }
