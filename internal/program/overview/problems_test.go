package overview_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/internal/program/overview"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// TestProblems: a problem keeps the time at which it was found first, until its source doesn't find it any more.
func TestProblems(t *testing.T) {
	t.Parallel()
	var p overview.Problems
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	full := overview.Problem{Code: "TidemarkRedisFull", Text: "full"}
	slow := overview.Problem{Code: "Slow", About: "a", Text: "slow", Page: "sizing.md"}
	require.Equal(t, wire.Problems{Problems: []client.FoundProblem{}}, p.Problems())
	p.Report("redis", now, []overview.Problem{slow})
	p.Report("redis", now.Add(time.Minute), []overview.Problem{slow, full})
	p.Report("metrics", now.Add(2*time.Minute), []overview.Problem{slow})
	const docs = "https://github.com/tidemark-dev/tidemark/blob/main/docs/"
	require.Equal(t, wire.Problems{CheckedAt: now.Add(2 * time.Minute), Problems: []client.FoundProblem{
		{Code: "TidemarkRedisFull", Severity: "critical", Text: "full", Since: now.Add(time.Minute),
			Docs: docs + "runbook.md#tidemarkredisfull"},
		{Code: "Slow", About: "a", Severity: "warning", Text: "slow", Since: now.Add(2 * time.Minute),
			Docs: docs + "sizing.md"},
		{Code: "Slow", About: "a", Severity: "warning", Text: "slow", Since: now, Docs: docs + "sizing.md"},
	}}, p.Problems())
	p.Report("redis", now.Add(time.Hour), nil)
	p.Report("redis", now.Add(2*time.Hour), []overview.Problem{slow})
	require.Equal(t, now.Add(2*time.Hour), p.Problems().Problems[0].Since, "it began again")
	p.Report("redis", now, make([]overview.Problem, 300))
	require.Len(t, p.Problems().Problems, 200)
	require.Equal(t, 101, p.Problems().More)
}

// watched is a server whose metrics are checked.
type watched struct {
	*testing.T
	registry *prometheus.Registry
	history  *overview.History
	problems *overview.Problems
	now      time.Time
}

func watch(t *testing.T, directors func() (map[string]bool, bool)) *watched {
	t.Helper()
	w := &watched{T: t, registry: prometheus.NewRegistry(), problems: &overview.Problems{}, now: time.Now()}
	w.history = overview.NewHistory(w.registry, "server")
	w.history.OnSample(overview.NewRules(w.history, w.problems, directors).Check)
	return w
}

// after adds points, and returns the problems that are there then: the code and what it is about.
func (w *watched) after(points int) (found []string) {
	w.Helper()
	for range points {
		w.now = w.now.Add(overview.Interval)
		w.history.Add(w.now)
	}
	for _, p := range w.problems.Problems().Problems {
		require.NotContains(w, p.Text, "%")
		found = append(found, strings.TrimSpace(p.Code+" "+p.About))
	}
	return found
}

// TestRules: counters that rise are problems for minutes, gauges while they exceed their limit.
func TestRules(t *testing.T) {
	t.Parallel()
	w := watch(t, nil)
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_redis_failures_total"},
		[]string{"redis", "code"})
	lag := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tidemark_subscriber_lag_messages"},
		[]string{"channel", "subscriber"})
	codes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_http_requests_total"}, []string{"code"})
	cut := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_streams_cut_total"}, []string{"transport"})
	w.registry.MustRegister(failures, lag, codes, cut)
	require.NoError(t, metrics.RegisterCertificate(w.registry, "s.pem", func() time.Time { return w.now.Add(48 * time.Hour) }))
	failures.WithLabelValues("channels", "network").Add(9) // before the first point
	require.Equal(t, []string{"TidemarkCertificateExpires s.pem"}, w.after(2))
	failures.WithLabelValues("channels", "network").Inc()
	failures.WithLabelValues("cache", "OOM").Inc()
	cut.WithLabelValues("sse").Add(10)
	lag.WithLabelValues("c", "s").Set(1001)
	codes.WithLabelValues("401").Add(301)
	codes.WithLabelValues("503").Add(20)
	codes.WithLabelValues("200").Add(20)
	want := []string{"CredentialsRefused", "TidemarkCertificateExpires s.pem", "TidemarkRedisFails channels network",
		"TidemarkRedisFull cache", "TidemarkRequestsFail", "TidemarkSubscriberLags c s"}
	require.ElementsMatch(t, want, w.after(1))
	require.Contains(t, w.problems.Problems().Problems[0].Text+w.problems.Problems().Problems[1].Text+
		w.problems.Problems().Problems[2].Text, "(1 in the last 5 minutes)")
	cut.WithLabelValues("sse").Inc() // more than ten now
	lag.WithLabelValues("c", "s").Set(1000)
	require.Contains(t, w.after(1), "TidemarkStreamsCut sse")
	require.NotContains(t, w.after(1), "TidemarkSubscriberLags c s")
	require.Equal(t, []string{"TidemarkCertificateExpires s.pem"}, w.after(62))
}

// TestDiskFails: a refused write is a critical problem at the next point, with its cause and what to do.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	w := watch(t, nil)
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_redis_failures_total"},
		[]string{"redis", "code"})
	w.registry.MustRegister(failures)
	failures.WithLabelValues("channels", "MISCONF").Add(0)
	require.Empty(t, w.after(1))
	failures.WithLabelValues("channels", "MISCONF").Inc()
	require.Equal(t, []string{"TidemarkRedisDiskFails channels"}, w.after(1))
	p := w.problems.Problems().Problems[0]
	require.Equal(t, client.SeverityCritical, p.Severity)
	require.Equal(t, "The Redis of channels can't write to its disk, and refuses all writes (1 in the last 5 minutes). "+
		"Free disk space, or repair its directory: its log has the cause.", p.Text)
}

// TestLosses: a failover that lost writes is a problem for an hour, with the time of the writes.
func TestLosses(t *testing.T) {
	t.Parallel()
	w := watch(t, nil)
	w.now = time.Date(2026, 11, 28, 15, 2, 40, 0, time.UTC)
	gauge := func(name string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tidemark_redis_lost_" + name}, []string{"redis"})
		w.registry.MustRegister(g)
		return g
	}
	since, until := gauge("since_timestamp_seconds"), gauge("until_timestamp_seconds")
	require.Empty(t, w.after(1))
	since.WithLabelValues("tickets").Set(float64(w.now.Add(-40 * time.Second).Unix()))
	until.WithLabelValues("tickets").Set(float64(w.now.Unix()))
	require.Equal(t, []string{"TidemarkRedisLostWrites tickets"}, w.after(1))
	found := w.problems.Problems().Problems[0]
	require.Equal(t, client.SeverityCritical, found.Severity)
	require.Equal(t, "The Redis of tickets failed over, and may have lost writes that were answered between "+
		"2026-11-28 15:02:10 and 2026-11-28 15:02:50 UTC.", found.Text)
	require.Len(t, w.after(358), 1)
	require.Empty(t, w.after(1))
}

// TestQueueRules: a queue in use without a director, one whose tickets wait, and one whose tickets expire.
func TestQueueRules(t *testing.T) {
	t.Parallel()
	elsewhere, all := map[string]bool{}, true
	w := watch(t, func() (map[string]bool, bool) { return elsewhere, all })
	queues, err := metrics.NewQueues(w.registry)
	require.NoError(t, err)
	queues.Queue("duel")
	w.after(1)
	create := func(points int) (found []string) {
		for range points {
			queues.Created("duel")
			found = w.after(1)
		}
		return found
	}
	require.Empty(t, create(6), "it may change hands")
	require.Equal(t, []string{"TidemarkNoDirector duel"}, create(2))
	all = false
	require.Empty(t, create(1), "another server may direct it")
	all, elsewhere["duel"] = true, true
	require.Empty(t, create(8))

	duel := queues.Queue("duel")
	duel.Directing(true)
	duel.Tickets(3, 0)
	require.Empty(t, create(29))
	require.Equal(t, []string{"TidemarkTicketsWait duel"}, create(3))
	duel.Matched([]time.Duration{time.Second})
	require.Empty(t, create(1))
	duel.Expired(30)
	require.Equal(t, []string{"TidemarkTicketsExpire duel"}, create(1))
}

// TestAlertsOfRules: each code of a rule that isn't a row of the table is an alert.
func TestAlertsOfRules(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("rules.go")
	require.NoError(t, err)
	alerts, err := os.ReadFile("../../../deploy/prometheus/rules.yaml")
	require.NoError(t, err)
	codes := 0
	for _, part := range strings.Split(string(source), `"Tidemark`)[1:] {
		code, _, _ := strings.Cut(part, `"`)
		require.Contains(t, string(alerts), "- alert: Tidemark"+code+"\n")
		codes++
	}
	require.Greater(t, codes, 5)
}

// TestSeverities: a problem is critical if its alert is, and after the same time.
func TestSeverities(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../../deploy/prometheus/rules.yaml")
	require.NoError(t, err)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert  string
				For    time.Duration
				Labels struct{ Severity client.Severity }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(source, &rules))
	alerts := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			alerts++
			p := overview.Problem{Code: rule.Alert}
			if rule.Labels.Severity == client.SeverityWarning {
				require.Equal(t, client.SeverityWarning, overview.SeverityOf(p, 24*time.Hour), rule.Alert)
				continue
			}
			if rule.Alert == "TidemarkDown" {
				continue // a server can't know it of itself
			}
			p.Critical = rule.Alert == "TidemarkNotReady" // which the checks of Redis find
			require.Equal(t, client.SeverityWarning, overview.SeverityOf(p, rule.For-1), rule.Alert)
			require.Equal(t, client.SeverityCritical, overview.SeverityOf(p, rule.For), rule.Alert)
		}
	}
	require.Greater(t, alerts, 30)
}

// TestPassingFailure: a check of Redis that has failed once is a warning, until it has failed for two minutes.
func TestPassingFailure(t *testing.T) {
	t.Parallel()
	var p overview.Problems
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	down := []overview.Problem{{Code: "RedisConnection", About: "channels", Text: "refused", Page: "p.md", Critical: true}}
	for minute, want := range []client.Severity{client.SeverityWarning, client.SeverityWarning, client.SeverityCritical} {
		p.Report("redis", now.Add(time.Duration(minute)*time.Minute), down)
		require.Equal(t, want, p.Problems().Problems[0].Severity, minute)
	}
	p.Report("redis", now.Add(3*time.Minute), nil)
	p.Report("redis", now.Add(4*time.Minute), down)
	require.Equal(t, client.SeverityWarning, p.Problems().Problems[0].Severity, "it begins again")
}
