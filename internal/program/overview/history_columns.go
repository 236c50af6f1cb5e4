package overview

import (
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// columnKind is how the values of a column are computed.
type columnKind int

const (
	isCount    columnKind = iota // increase of counters since the point before, times scale
	isGauge                      // sum of gauges, times scale
	isQuantile                   // quantile of a histogram's observations since the point before, in ms
)

// column is a column of a history. docs/http-api.md lists all names.
type column struct {
	name, metric string
	kind         columnKind
	quantile     float64
	scale        float64                // 0: 1
	only         func(*dto.Metric) bool // nil: all metrics of the name
}

func count(name, metric string) column { return column{name: name, metric: metric} }
func gauge(name, metric string) column { return column{name: name, metric: metric, kind: isGauge} }

func quantile(name, metric string, q float64) column {
	return column{name: name, metric: metric, kind: isQuantile, quantile: q}
}

func (c column) where(label string, values ...string) column {
	c.only = func(m *dto.Metric) bool { return slices.Contains(values, labelOf(m, label)) }
	return c
}

func (c column) times(scale float64) column {
	c.scale = scale
	return c
}

const (
	requestSeconds = "tidemark_http_request_seconds"
	ticketSeconds  = "tidemark_ticket_wait_seconds"
	channelRoute   = "/v1/channels/:channel"
	subscriberAck  = channelRoute + "/subscribers/:subscriber/ack"
)

// publishing are the routes of publishes.
func publishing(c column) column {
	c.only = func(m *dto.Metric) bool {
		route, method := labelOf(m, "route"), labelOf(m, "method")
		return method == "POST" && route == channelRoute+"/messages" ||
			method == "PUT" && route == channelRoute+"/messages/:id"
	}
	return c
}

var (
	serviceColumns = []column{
		count("published", "tidemark_messages_published_total"),
		count("duplicates", "tidemark_messages_duplicates_total"),
		count("delivered", "tidemark_messages_delivered_total"),
		count("acks", "tidemark_acks_total"),
		count("expired", "tidemark_messages_expired_total"),
		count("purged", "tidemark_messages_purged_total"),
		count("damaged", "tidemark_messages_damaged_total"),
		gauge("waits", "tidemark_waiting_fetches"),
		gauge("streams", "tidemark_streams").where("transport", "sse"),
		gauge("sockets", "tidemark_streams").where("transport", "websocket"),
		gauge("connections", "tidemark_http_connections"),
		gauge("listened", "tidemark_listened_channels"),
		count("requests", "tidemark_http_requests_total"),
		count("limited", "tidemark_limited_total"),
		publishing(quantile("publishP50Ms", requestSeconds, .5)),
		publishing(quantile("publishP99Ms", requestSeconds, .99)),
		quantile("ackP50Ms", requestSeconds, .5).where("route", subscriberAck),
		quantile("ackP99Ms", requestSeconds, .99).where("route", subscriberAck),
		count("redisScripts", "tidemark_redis_scripts_total"),
		count("redisRetries", "tidemark_redis_retries_total"),
		count("tickets", "tidemark_tickets_created_total"),
		count("matches", "tidemark_matches_total"),
		count("ticketsExpired", "tidemark_tickets_expired_total"),
		gauge("ticketsWaiting", "tidemark_tickets"),
		quantile("ticketWaitP50Ms", ticketSeconds, .5),
		quantile("ticketWaitP99Ms", ticketSeconds, .99),
		gauge("sessions", "tidemark_sessions_known"),
		gauge("lockWaits", "tidemark_lock_waits"),
		count("cpuMs", "process_cpu_seconds_total").times(1000),
		gauge("memoryBytes", "process_resident_memory_bytes"),
		gauge("goroutines", "go_goroutines"),
	}
	queueColumns = []column{
		count("tickets", "tidemark_tickets_created_total"),
		count("matches", "tidemark_matches_total"),
		count("cancelled", "tidemark_tickets_cancelled_total"),
		count("expired", "tidemark_tickets_expired_total"),
		count("conflicts", "tidemark_assign_conflicts_total"),
		count("failures", "tidemark_match_function_errors_total"),
		count("allocationFailures", "tidemark_allocation_errors_total"),
		gauge("searching", "tidemark_tickets").where("status", "SEARCHING"),
		gauge("pending", "tidemark_tickets").where("status", "PENDING"),
		quantile("waitP50Ms", ticketSeconds, .5),
		quantile("waitP90Ms", ticketSeconds, .9),
		quantile("waitP99Ms", ticketSeconds, .99),
	}
	cacheColumns = []column{
		{name: "hits", metric: "tidemark_cache_events_total", only: func(m *dto.Metric) bool {
			return strings.HasPrefix(labelOf(m, "event"), "hit")
		}},
		count("misses", "tidemark_cache_events_total").where("event", "miss"),
	}
	codeColumns  = []column{count("requests", "tidemark_http_requests_total")}
	redisColumns = []column{count("failures", "tidemark_redis_failures_total")}
)

// read returns the raw values of a column: a sum, or the counts of a histogram's buckets after their bounds.
func (c column) read(metrics []*dto.Metric) []float64 {
	var buckets []float64
	sum, found := 0.0, false
	for _, m := range metrics {
		if c.only != nil && !c.only(m) {
			continue
		}
		found = true
		if c.kind != isQuantile {
			sum += valueOf(m)
			continue
		}
		all := m.GetHistogram().GetBucket()
		if buckets == nil {
			buckets = make([]float64, 2*len(all)+1)
		}
		for i, b := range all {
			buckets[i] = b.GetUpperBound()
			buckets[len(all)+i] += float64(b.GetCumulativeCount())
		}
		buckets[2*len(all)] += float64(m.GetHistogram().GetSampleCount())
	}
	switch {
	case c.kind == isQuantile:
		return buckets
	case !found && c.kind == isGauge:
		return nil
	}
	return []float64{sum}
}

// value returns the value of a point from its raw values and those of the point before; NaN: there is none.
func (c column) value(raw, before []float64) float64 {
	scale := c.scale
	if scale == 0 {
		scale = 1
	}
	switch {
	case len(raw) == 0:
		return math.NaN()
	case c.kind == isQuantile:
		return quantileOf(c.quantile, raw, before) * 1000
	case c.kind == isGauge:
		return raw[0] * scale
	case len(before) == 0:
		return raw[0] * scale
	}
	return max(0, raw[0]-before[0]) * scale
}

// quantileOf interpolates between the bounds of buckets, as Prometheus does. Above the last bound it is that bound.
func quantileOf(q float64, raw, before []float64) float64 {
	n := len(raw) / 2
	seen := func(i int) float64 {
		if len(before) != len(raw) {
			return raw[n+i]
		}
		return raw[n+i] - before[n+i]
	}
	total := seen(n)
	if total <= 0 {
		return math.NaN()
	}
	rank, lower, below := q*total, 0.0, 0.0
	for i := range n {
		if upto := seen(i); upto >= rank {
			if upto == below {
				return raw[i]
			}
			return lower + (raw[i]-lower)*(rank-below)/(upto-below)
		} else {
			lower, below = raw[i], upto
		}
	}
	return lower
}
