package records

import (
	"context"
	"net/http"
	"net/url"

	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Views are the views of publications. *records.Views implements it.
type Views interface {
	Count(counts ...records.ViewCount) error
	Totals(ctx context.Context, ids, slugs []string) ([]records.ViewTotal, error)
	Import(ctx context.Context, p records.ImportPart) (records.Import, error)
	AddSlugs(ctx context.Context, slugs map[string]string) error
}

type viewCalls struct{ service Views }

func addViews(a web.API, service Views) {
	const path, single = "/v1/views", "/v1/views/:id"
	h, whole := &viewCalls{service}, of("views", 0)
	for _, r := range []web.Route{
		{Method: http.MethodPost, Path: path, Action: access.Write, Handle: h.countMany},
		{Method: http.MethodPost, Path: single, Action: access.Write, Of: of("views", 1), Handle: h.count},
		{Method: http.MethodPost, Path: path + "/import", Action: access.Write, Of: whole, Handle: h.load},
		{Method: http.MethodPost, Path: path + "/slugs", Action: access.Write, Of: whole, Handle: h.slugs},
	} {
		a.Add(r)
	}
	a.AddGet(web.Route{Path: path, Query: web.QueryRead, Action: access.Read, Handle: h.list})
	a.AddGet(web.Route{Path: single, Action: access.Read, Of: of("views", 1), Handle: h.show})
	a.NothingBelow(single)
}

// count is POST /v1/views/{id}. Most calls have no body.
func (h *viewCalls) count(c *web.Call) error {
	asked, err := decodeOptional(c, wire.ViewCount{Views: 1})
	if err == nil {
		err = h.service.Count(records.ViewCount{ID: c.Param(0), Views: asked.Views})
	}
	if err != nil {
		return inBody(err, "id")
	}
	return c.Value(http.StatusAccepted, wire.ViewCounts{Views: map[string]int64{c.Param(0): asked.Views}})
}

// countMany is POST /v1/views.
func (h *viewCalls) countMany(c *web.Call) error {
	asked, err := decode[wire.ViewCounts](c)
	if err != nil {
		return err
	}
	counts := make([]records.ViewCount, 0, len(asked.Views))
	for id, views := range asked.Views {
		if err := records.CheckViewID("views", id); err != nil {
			return inBody(err)
		}
		if err := c.Allow(access.Write, access.Record("views", id)); err != nil {
			return err
		}
		counts = append(counts, records.ViewCount{ID: id, Views: views})
	}
	if err := h.service.Count(counts...); err != nil {
		return inBody(err)
	}
	return c.Value(http.StatusAccepted, asked)
}

func viewsOf(t records.ViewTotal) clientrecords.Views {
	return clientrecords.Views{ID: t.ID, Slug: t.Slug, Total: t.Counted + t.Migrated, Counted: t.Counted,
		Migrated: t.Migrated}
}

// show is GET /v1/views/{id}.
func (h *viewCalls) show(c *web.Call) error {
	totals, err := h.service.Totals(c.Context(), []string{c.Param(0)}, nil)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, viewsOf(totals[0]))
}

// list is GET /v1/views?id=…&slug=….
func (h *viewCalls) list(c *web.Call) error {
	asked, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return web.RefuseParameter("", "the query can't be read")
	}
	ids, slugs := asked["id"], asked["slug"]
	delete(asked, "id")
	delete(asked, "slug")
	for name := range asked {
		return web.RefuseParameter(name, "the only parameters are id and slug")
	}
	totals, err := h.service.Totals(c.Context(), ids, slugs)
	if err != nil {
		return err
	}
	answer := wire.ViewsList{Views: make([]clientrecords.Views, 0, len(totals))}
	for _, t := range totals {
		if err := c.Allow(access.Read, access.Record("views", t.ID)); err != nil {
			return err
		}
		answer.Views = append(answer.Views, viewsOf(t))
	}
	return c.Value(http.StatusOK, answer)
}

// load is POST /v1/views/import.
func (h *viewCalls) load(c *web.Call) error {
	return answer(c, http.StatusOK, func(p wire.ViewsPart) (clientrecords.ViewsImport, error) {
		state, err := h.service.Import(c.Context(), records.ImportPart{At: p.Timestamp, Total: p.Total, Views: p.Views})
		return clientrecords.ViewsImport{IDs: state.Records, Complete: state.Complete, Current: state.Current}, err
	})
}

// slugs is POST /v1/views/slugs.
func (h *viewCalls) slugs(c *web.Call) error {
	asked, err := decode[wire.ViewsSlugs](c)
	if err != nil {
		return err
	}
	if err := h.service.AddSlugs(c.Context(), asked.Slugs); err != nil {
		return inBody(err)
	}
	return c.NoContent()
}
