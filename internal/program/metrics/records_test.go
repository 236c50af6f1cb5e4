package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/locks"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
	"github.com/tidemark-dev/tidemark/internal/records/site"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	m, err := metrics.NewRecords(r)
	require.NoError(t, err)
	_, err = metrics.NewRecords(r)
	require.Error(t, err, "they are registered once")
	m.Count(site.Kind("author"), records.HitRedis)
	m.Count(site.Kind("author"), records.HitRedis)
	m.Count(site.Kind("shouts"), records.Miss)
	m.Check(sessions.Unknown)
	m.Lock(locks.Held)
	require.Equal(t, []string{
		`tidemark_cache_events_total label:{name:"event" value:"hit-redis"} label:{name:"kind" value:"author"} counter:{value:2}`,
		`tidemark_cache_events_total label:{name:"event" value:"miss"} label:{name:"kind" value:"shouts"} counter:{value:1}`,
		`tidemark_locks_total label:{name:"outcome" value:"acquired"} counter:{value:0}`,
		`tidemark_locks_total label:{name:"outcome" value:"held"} counter:{value:1}`,
		`tidemark_locks_total label:{name:"outcome" value:"lost"} counter:{value:0}`,
		`tidemark_session_checks_total label:{name:"outcome" value:"failed"} counter:{value:0}`,
		`tidemark_session_checks_total label:{name:"outcome" value:"unknown"} counter:{value:1}`,
		`tidemark_session_checks_total label:{name:"outcome" value:"valid"} counter:{value:0}`,
	}, gathered(t, r))
}
