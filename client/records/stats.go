package records

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/id"
)

// StatsWindow is the counters of an entity in a window.
type StatsWindow struct {
	Start  time.Time        `json:"start"`
	End    time.Time        `json:"end"`
	Fields map[string]int64 `json:"fields"`
}

// MetricWindow is a metric in a window.
type MetricWindow struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	Value int64     `json:"value"`
}

// AddStats adds amounts, which may be negative, to counters of an entity in the present window of a timeframe
// ("hourly", "daily" or "weekly"), and returns those. The call may be repeated for an hour with the same unique ID, and
// adds once; "" is one of the client's own, for its retries.
func (c *Client) AddStats(ctx context.Context, entity, timeframe string, amounts map[string]int64,
	unique string) (w StatsWindow, err error) {
	body := map[string]any{"fields": amounts, "id": uniqueOr(unique)}
	_, err = c.service.Do(ctx, client.Call{What: "add to statistics", Method: http.MethodPost,
		Path: []string{"stats", entity, timeframe}, Body: body}, &w)
	return w, err
}

func uniqueOr(unique string) string {
	if unique == "" {
		return id.New()
	}
	return unique
}

// SetStats sets counters of an entity in the present window, and returns them.
func (c *Client) SetStats(ctx context.Context, entity, timeframe string, values map[string]int64) (w StatsWindow,
	err error) {
	body := map[string]any{"fields": values}
	_, err = c.service.Do(ctx, client.Call{What: "set statistics", Method: http.MethodPut,
		Path: []string{"stats", entity, timeframe}, Body: body}, &w)
	return w, err
}

// Stats returns the windows of an entity with values, from one time to another, the oldest first. A zero time is now.
func (c *Client) Stats(ctx context.Context, entity, timeframe string, from, to time.Time) ([]StatsWindow, error) {
	var answer struct {
		Windows []StatsWindow `json:"windows"`
	}
	_, err := c.service.Do(ctx, client.Call{
		What: "get statistics", Method: http.MethodGet, Path: []string{"stats", entity, timeframe},
		Query: between(from, to),
	}, &answer)
	return answer.Windows, err
}

func between(from, to time.Time) url.Values {
	query := url.Values{}
	for name, at := range map[string]time.Time{"from": from, "to": to} {
		if !at.IsZero() {
			query.Set(name, at.Format(time.RFC3339))
		}
	}
	return query
}

// AddMetric adds an amount, which may be negative, to a metric in the present window of a period, as AddStats does.
func (c *Client) AddMetric(ctx context.Context, name, period string, amount int64, unique string) (w MetricWindow,
	err error) {
	body := map[string]any{"add": amount, "id": uniqueOr(unique)}
	_, err = c.service.Do(ctx, client.Call{What: "add to a metric", Method: http.MethodPost,
		Path: []string{"metrics", name, period}, Body: body}, &w)
	return w, err
}

// SetMetric sets a metric in the present window.
func (c *Client) SetMetric(ctx context.Context, name, period string, value int64) (w MetricWindow, err error) {
	body := map[string]int64{"value": value}
	_, err = c.service.Do(ctx, client.Call{What: "set a metric", Method: http.MethodPut,
		Path: []string{"metrics", name, period}, Body: body}, &w)
	return w, err
}

// Metric returns the windows of a metric with a value, as Stats does.
func (c *Client) Metric(ctx context.Context, name, period string, from, to time.Time) ([]MetricWindow, error) {
	var answer struct {
		Windows []MetricWindow `json:"windows"`
	}
	_, err := c.service.Do(ctx, client.Call{
		What: "get a metric", Method: http.MethodGet, Path: []string{"metrics", name, period}, Query: between(from, to),
	}, &answer)
	return answer.Windows, err
}
