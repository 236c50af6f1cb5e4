package metrics_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
)

var errBroken = errors.New("broken")

func TestClients(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	clients, err := metrics.NewShardClients(r)
	require.NoError(t, err)
	_, err = metrics.NewShardClients(r)
	require.Error(t, err, "they are registered once")
	c := clients.Of("author")
	clients.Of("topic").Changed(1, 0)
	a, lost := shard.Host{Address: "10.0.0.7:7100", DC: "a"}, shard.Host{Address: "10.0.0.8:7100"}
	c.First(a, 300*time.Microsecond)
	for _, err := range []error{
		shard.ErrNotMatched, shard.ErrTimeout, shard.ErrUnavailable, shard.ErrBadAnswer, shard.ErrOtherCache,
		shard.ErrUndecodable, errBroken,
	} {
		c.Failed(a, fmt.Errorf("call: %w", err))
	}
	c.Late(lost)
	c.NoShard(3)
	c.Changed(12, 11)
	c.Changed(12, 12)
	clients.Count(site.Kind("author"), tier.Hit, 5)
	require.Equal(t, strings.Split(strings.TrimSpace(`
tidemark_shard_client_answer_seconds_sum{cache="author",dc="a"} 0.0003
tidemark_shard_client_answer_seconds_count{cache="author",dc="a"} 1
tidemark_shard_client_failures_total{cache="author",dc="a",reason="bad-answer"} 1
tidemark_shard_client_failures_total{cache="author",dc="a",reason="not-matched"} 1
tidemark_shard_client_failures_total{cache="author",dc="a",reason="other"} 1
tidemark_shard_client_failures_total{cache="author",dc="a",reason="other-cache"} 1
tidemark_shard_client_failures_total{cache="author",dc="a",reason="timeout"} 1
tidemark_shard_client_failures_total{cache="author",dc="a",reason="unavailable"} 1
tidemark_shard_client_failures_total{cache="author",dc="a",reason="undecodable"} 1
tidemark_shard_client_hosts{cache="author"} 12
tidemark_shard_client_hosts{cache="topic"} 1
tidemark_shard_client_hosts_with_shard{cache="author"} 12
tidemark_shard_client_hosts_with_shard{cache="topic"} 0
tidemark_shard_client_keys_without_shard_total{cache="author"} 3
tidemark_shard_client_keys_without_shard_total{cache="topic"} 0
tidemark_shard_client_late_answers_total{cache="author",dc="unknown"} 1
tidemark_shard_client_map_changes_total{cache="author"} 2
tidemark_shard_client_map_changes_total{cache="topic"} 1
tidemark_shard_reads_total{cache="author",outcome="failed"} 0
tidemark_shard_reads_total{cache="author",outcome="hit"} 5
tidemark_shard_reads_total{cache="author",outcome="missing"} 0
tidemark_shard_reads_total{cache="author",outcome="passed"} 0
tidemark_shard_reads_total{cache="author",outcome="without-redis"} 0
tidemark_shard_reads_total{cache="topic",outcome="failed"} 0
tidemark_shard_reads_total{cache="topic",outcome="hit"} 0
tidemark_shard_reads_total{cache="topic",outcome="missing"} 0
tidemark_shard_reads_total{cache="topic",outcome="passed"} 0
tidemark_shard_reads_total{cache="topic",outcome="without-redis"} 0
`), "\n"), shown(t, r))
}

// However many data centres a list of hosts names, there are few metrics.
func TestManyDataCentres(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	clients, err := metrics.NewShardClients(r)
	require.NoError(t, err)
	for i := range 2000 {
		clients.Of("author").Late(shard.Host{DC: fmt.Sprint("dc-", i%1000)})
	}
	late := slices.DeleteFunc(shown(t, r), func(line string) bool { return !strings.Contains(line, "late_answers") })
	require.Len(t, late, 33, "32 and all others")
}

func TestNodes(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	unready := errBroken
	n := metrics.NewShardNode(shard.Member{Cache: "author", DC: "a", Host: "node-1"})
	require.NoError(t, n.Register(r, func() error { return unready }, func() tier.Stats {
		return tier.Stats{Entries: 7, Bytes: 70, LeftOut: 1, Behind: 2 * time.Second}
	}))
	require.Subset(t, shown(t, r), []string{`tidemark_shard_node_serving{cache="author",dc="a"} 0`,
		`tidemark_shard_node_shard{cache="author",dc="a"} -1`})
	unready = nil
	n.Claimed(shard.Claimed{Shard: 3, Incarnation: 1 << 50})
	n.Loaded(time.Second, errBroken)
	n.Loaded(2*time.Second, nil)
	n.Answered(100, true, time.Millisecond, nil)
	n.Answered(1, false, time.Millisecond, nil)
	n.Answered(0, true, time.Hour, nil)
	n.Answered(0, false, 0, fmt.Errorf("get: %w", shard.ErrOtherCache))
	n.Answered(0, false, 0, fmt.Errorf("get: %w", shard.ErrUndecodable))
	n.Answered(0, false, 0, errBroken)
	n.Stopped(errBroken)
	require.Equal(t, strings.Split(strings.TrimSpace(`
tidemark_shard_node_behind_seconds{cache="author",dc="a"} 2
tidemark_shard_node_claims_total{cache="author",dc="a"} 1
tidemark_shard_node_entries{cache="author",dc="a"} 7
tidemark_shard_node_entries_left_out{cache="author",dc="a"} 1
tidemark_shard_node_entry_bytes{cache="author",dc="a"} 70
tidemark_shard_node_incarnation{cache="author",dc="a"} 1.125899906842624e+15
tidemark_shard_node_keys_total{cache="author",dc="a"} 101
tidemark_shard_node_load_seconds{cache="author",dc="a"} 2
tidemark_shard_node_loads_total{cache="author",dc="a",outcome="failed"} 1
tidemark_shard_node_loads_total{cache="author",dc="a",outcome="loaded"} 1
tidemark_shard_node_request_seconds_sum{cache="author",dc="a"} 0.002
tidemark_shard_node_request_seconds_count{cache="author",dc="a"} 2
tidemark_shard_node_requests_total{cache="author",dc="a",outcome="failed"} 1
tidemark_shard_node_requests_total{cache="author",dc="a",outcome="matched"} 1
tidemark_shard_node_requests_total{cache="author",dc="a",outcome="not-matched"} 1
tidemark_shard_node_requests_total{cache="author",dc="a",outcome="other-cache"} 1
tidemark_shard_node_requests_total{cache="author",dc="a",outcome="ping"} 1
tidemark_shard_node_requests_total{cache="author",dc="a",outcome="undecodable"} 1
tidemark_shard_node_serving{cache="author",dc="a"} 1
tidemark_shard_node_shard{cache="author",dc="a"} 3
`), "\n"), shown(t, r))
}

// shown returns the lines of metrics, without buckets.
func shown(t *testing.T, r *prometheus.Registry) []string {
	t.Helper()
	page := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequestWithContext(t.Context(),
		http.MethodGet, "/", nil))
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(page.Body.String()), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "#") || strings.Contains(line, "_bucket{")
	})
}
