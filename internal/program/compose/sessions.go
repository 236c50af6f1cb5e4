package compose

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
	"github.com/tidemark-dev/tidemark/internal/records/sessions/credentials"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

func openSessions(n Needs, m sessions.Metrics) (*sessions.Service, error) {
	o := sessions.Options{Store: redisrecords.NewSessions(n.Redis.Sessions), TTL: n.Config.Sessions.TTL,
		Metrics: m}
	if revoked := n.Revoked; revoked != nil {
		o.Revoked = func(s sessions.Session) bool {
			return revoked.Revoked(&access.Principal{Kind: access.Session, Subject: s.User, Credential: s.ID,
				Issued: s.Created})
		}
	}
	s, err := sessions.NewService(o)
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	return s, nil
}

// SessionCredentials makes the tokens of sessions credentials, which are kept up to date until the parts are stopped.
func (r *Records) SessionCredentials(ctx context.Context) (*credentials.Credentials, error) {
	client, err := tracked.Open(ctx, r.needs.Redis.Sessions, tracked.Options{})
	if err != nil {
		return nil, fmt.Errorf("sessions as credentials: %w", err)
	}
	r.needs.Parts.OnStop(client.Close)
	cached := credentials.New(credentials.Options{
		Service: r.sessions, Tracker: redisrecords.NewSessionTracker(r.needs.Redis.Sessions, client),
		Grants: r.needs.Config.Sessions.Grants,
		Logger: r.needs.Log,
	})
	r.needs.Metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_sessions_known", Help: "Sessions that the server knows as credentials.",
		}, func() float64 { return float64(cached.Counts().Known) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "tidemark_session_waits_ended_total",
			Help: "Requests that waited with a session that was revoked or ended.",
		}, func() float64 { return float64(cached.Counts().Ended) }))
	r.needs.Parts.Run(ctx, "sessions", cached.Run)
	return cached, nil
}
