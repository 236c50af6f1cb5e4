package records

import (
	"context"
	"fmt"
	"net/http"
	"time"

	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Stats are statistics. *records.Stats implements it.
type Stats interface {
	Add(ctx context.Context, of records.Series, amounts map[string]int64, id string) (records.StatsWindow, error)
	Set(ctx context.Context, of records.Series, values map[string]int64) (records.StatsWindow, error)
	Range(ctx context.Context, of records.Series, from, to time.Time) ([]records.StatsWindow, error)
}

type statsCalls struct{ service Stats }

func addStats(a web.API, service Stats) {
	const stats, metrics = "/v1/stats/:entity/:timeframe", "/v1/metrics/:name/:period"
	h, entity, name := &statsCalls{service}, of("stats", 1), of("metrics", 1)
	for _, r := range []web.Route{
		{Method: http.MethodPost, Path: stats, Action: access.Write, Of: entity, Handle: h.add},
		{Method: http.MethodPut, Path: stats, Action: access.Write, Of: entity, Handle: h.set},
		{Method: http.MethodPost, Path: metrics, Action: access.Write, Of: name, Handle: h.addMetric},
		{Method: http.MethodPut, Path: metrics, Action: access.Write, Of: name, Handle: h.setMetric},
	} {
		a.Add(r)
	}
	a.AddGet(web.Route{Path: stats, Query: web.QueryRead, Action: access.Read, Of: entity, Handle: h.show})
	a.AddGet(web.Route{Path: metrics, Query: web.QueryRead, Action: access.Read, Of: name, Handle: h.showMetric})
	a.NothingBelow(stats)
	a.NothingBelow(metrics)
}

// add is POST /v1/stats/{entity}/{timeframe}.
func (h *statsCalls) add(c *web.Call) error {
	return change(c, records.StatsOf, statsWindow, func(of records.Series, asked wire.StatsChange) (
		records.StatsWindow, error) {
		return h.service.Add(c.Context(), of, asked.Fields, asked.ID)
	})
}

// set is PUT /v1/stats/{entity}/{timeframe}.
func (h *statsCalls) set(c *web.Call) error {
	return change(c, records.StatsOf, statsWindow, func(of records.Series, asked wire.StatsChange) (
		records.StatsWindow, error) {
		return h.service.Set(c.Context(), of, asked.Fields)
	})
}

// addMetric is POST /v1/metrics/{name}/{period}.
func (h *statsCalls) addMetric(c *web.Call) error {
	return change(c, records.MetricOf, metricWindow, func(of records.Series, asked wire.MetricAddition) (
		records.StatsWindow, error) {
		if asked.Add == nil {
			return records.StatsWindow{}, missing("add")
		}
		return h.service.Add(c.Context(), of, map[string]int64{"": *asked.Add}, asked.ID)
	})
}

// setMetric is PUT /v1/metrics/{name}/{period}.
func (h *statsCalls) setMetric(c *web.Call) error {
	return change(c, records.MetricOf, metricWindow, func(of records.Series, asked wire.MetricValue) (
		records.StatsWindow, error) {
		if asked.Value == nil {
			return records.StatsWindow{}, missing("value") // and not 0, which would lose the metric
		}
		return h.service.Set(c.Context(), of, map[string]int64{"": *asked.Value})
	})
}

// change changes the present window of the series in the path, and answers it in the form of body.
func change[T, A any](c *web.Call, seriesOf func(name, period string) (records.Series, error),
	body func(records.Series, records.StatsWindow) A, do func(records.Series, T) (records.StatsWindow, error)) error {
	of, err := seriesOf(c.Param(0), c.Param(1))
	if err != nil {
		return err
	}
	return answer(c, http.StatusOK, func(asked T) (A, error) {
		w, err := do(of, asked)
		return body(of, w), err
	})
}

// show is GET /v1/stats/{entity}/{timeframe}.
func (h *statsCalls) show(c *web.Call) error {
	of, err := records.StatsOf(c.Param(0), c.Param(1))
	if err != nil {
		return err
	}
	windows, err := windowsOf(h, c, of, statsWindow)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, wire.StatsRange{Windows: windows})
}

// showMetric is GET /v1/metrics/{name}/{period}.
func (h *statsCalls) showMetric(c *web.Call) error {
	of, err := records.MetricOf(c.Param(0), c.Param(1))
	if err != nil {
		return err
	}
	windows, err := windowsOf(h, c, of, metricWindow)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, wire.MetricRange{Windows: windows})
}

// windowsOf reads the windows from a query.
func windowsOf[T any](h *statsCalls, c *web.Call, of records.Series, body func(records.Series, records.StatsWindow) T) (
	[]T, error) {
	var from, to time.Time
	err := web.ReadQuery(c.Request().URL.RawQuery, []string{"from", "to"}, func(name, value string) (err error) {
		at := &from
		if name == "to" {
			at = &to
		}
		if *at, err = time.Parse(time.RFC3339, value); err != nil {
			err = web.RefuseParameter(name, fmt.Sprintf("%s is %.64q, it must be a time such as 2030-01-31T12:00:00Z", name,
				value))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	windows, err := h.service.Range(c.Context(), of, from, to)
	found := make([]T, 0, len(windows))
	for _, w := range windows {
		found = append(found, body(of, w))
	}
	return found, err
}

func statsWindow(of records.Series, w records.StatsWindow) clientrecords.StatsWindow {
	return clientrecords.StatsWindow{Start: w.Start, End: w.Start.Add(of.Timeframe.Length), Fields: w.Values}
}

func metricWindow(of records.Series, w records.StatsWindow) clientrecords.MetricWindow {
	return clientrecords.MetricWindow{Start: w.Start, End: w.Start.Add(of.Timeframe.Length), Value: w.Values[""]}
}
