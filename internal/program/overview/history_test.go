package overview_test

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/internal/program/overview"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// TestHistory: counts are increases, gauges are values, quantiles are of the observations between two points, and a
// client that polls gets each point once.
func TestHistory(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	published := prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_messages_published_total"})
	waits := prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_waiting_fetches"})
	codes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_http_requests_total"},
		[]string{"code", "route", "method"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tidemark_http_request_seconds",
		Buckets: []float64{.1, .2, .4}}, []string{"route", "method"})
	r.MustRegister(published, waits, codes, seconds)
	queues, err := metrics.NewQueues(r)
	require.NoError(t, err)
	publish := seconds.WithLabelValues("/v1/channels/:channel/messages", "POST")
	published.Add(100)
	codes.WithLabelValues("503", "/a", "GET").Add(7)
	h := overview.NewHistory(r, "server")
	now := time.Now()
	h.Add(now) // nothing to compare with
	require.Empty(t, h.Since(0, "").Times)

	published.Add(5)
	waits.Set(3)
	for range 10 {
		publish.Observe(.15)
	}
	publish.Observe(9)
	codes.WithLabelValues("503", "/a", "GET").Inc()
	codes.WithLabelValues("503", "/b", "GET").Inc()
	codes.WithLabelValues("429", "/b", "GET").Inc()
	codes.WithLabelValues("200", "/b", "GET").Inc()
	queues.Created("duel")
	h.Add(now.Add(10 * time.Second))
	queues.Created("duel")
	queues.Queue("duel").Matched([]time.Duration{7 * time.Millisecond})
	h.Add(now.Add(20 * time.Second))

	all := h.Since(0, "")
	require.Equal(t, []int64{now.UnixMilli() + 10_000, now.UnixMilli() + 20_000}, all.Times)
	require.Equal(t, now.UnixMilli()+20_000, all.Through)
	require.Equal(t, "[5,0]", text(t, all.Columns["published"]))
	require.Equal(t, "[3,3]", text(t, all.Columns["waits"]))
	require.Equal(t, "[155,null]", text(t, all.Columns["publishP50Ms"]), "between 100 and 200 ms")
	require.Equal(t, "[400,null]", text(t, all.Columns["publishP99Ms"]), "the last bound")
	require.Equal(t, "[null,null]", text(t, all.Columns["sessions"]), "there is no such metric")
	require.Len(t, all.Errors, 2)
	require.Equal(t, "[2,0]", text(t, all.Errors["503"]["requests"]))
	require.Equal(t, "[1,0]", text(t, all.Errors["429"]["requests"]), "its first event counts")

	duel := h.Since(all.Times[0], "duel")
	require.Len(t, duel.Times, 1)
	require.Equal(t, "[1]", text(t, duel.Columns["tickets"]))
	require.Equal(t, "[1]", text(t, duel.Columns["matches"]))
	require.Equal(t, "[7.5]", text(t, duel.Columns["waitP50Ms"]))
	require.Empty(t, duel.Errors)
	require.EqualValues(t, 2, h.Sum("duel", "tickets", 360))
	require.EqualValues(t, 1, h.Sum("duel", "tickets", 1))
	require.EqualValues(t, 2, h.SumErrors("503", 6))

	require.Empty(t, h.Since(all.Through, "").Times)
	require.Equal(t, all.Through, h.Since(all.Through, "").Through)
	require.Equal(t, "[null,null]", text(t, h.Since(0, "none").Columns["tickets"]), "an unknown queue")
}

// TestHistoryBounds: it keeps an hour, and so many queues; one that is idle for an hour makes room.
func TestHistoryBounds(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	queues, err := metrics.NewQueues(r)
	require.NoError(t, err)
	h := overview.NewHistory(r, "server")
	now := time.Now()
	h.Add(now)
	const limit = 64
	for i := range limit + 1 {
		queues.Created("q" + strconv.Itoa(i))
	}
	step := func() {
		now = now.Add(overview.Interval)
		h.Add(now)
	}
	step()
	kept := func() (n int) {
		for i := range limit + 1 {
			if h.Sum("q"+strconv.Itoa(i), "tickets", 360) > 0 {
				n++
			}
		}
		return n
	}
	require.Equal(t, limit, kept())
	for range 360 {
		step()
	}
	require.Len(t, h.Since(0, "").Times, 360)
	require.Zero(t, kept(), "they are older than an hour")
	for range 2 {
		for i := range limit + 1 {
			queues.Created("r" + strconv.Itoa(i))
		}
		step()
	}
	fresh := 0
	for i := range limit + 1 {
		name := "r" + strconv.Itoa(i)
		fresh += int(h.Sum(name, "tickets", 1))
		queues.Forget(name)
	}
	require.Equal(t, limit, fresh, "there is room again")
	step()
	require.Zero(t, h.Sum("r1", "tickets", 360)+h.Sum("r2", "tickets", 360), "a deleted queue has no history")
}

func text(t *testing.T, c wire.Column) string {
	t.Helper()
	b, err := json.Marshal(c)
	require.NoError(t, err)
	return string(b)
}

func TestColumn(t *testing.T) {
	t.Parallel()
	require.Equal(t, "[1,null,0.1235,1234,1000000]", func() string {
		b, err := wire.Column{1, float32(math.NaN()), .12346, 1234.4, 1e6}.MarshalJSON()
		require.NoError(t, err)
		return string(b)
	}())
}

// TestHistoryPage: docs/http-api.md lists all columns.
func TestHistoryPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/http-api.md")
	require.NoError(t, err)
	h := overview.NewHistory(prometheus.NewRegistry(), "server")
	for _, queue := range []string{"", "duel"} {
		for name := range h.Since(0, queue).Columns {
			require.Contains(t, string(page), "`"+name+"`")
		}
	}
}
