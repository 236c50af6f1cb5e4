package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	accesskeys "github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Registry stores API keys and revocations.
type Registry interface {
	Create(ctx context.Context, n accesskeys.NewKey) (k accesskeys.Key, text string, err error)
	Delete(ctx context.Context, id string) error
	Revoke(ctx context.Context, what accesskeys.Revocation) (accesskeys.Revocation, error)
	Keys(ctx context.Context, after string, limit int) (page []accesskeys.Key, next string, err error)
	Revocations(ctx context.Context, after string, limit int) (page []accesskeys.Revocation, next string, err error)
}

// addAccess adds the routes of API keys and revocations.
func addAccess(r *web.Router, of Registry) {
	a, k, v := web.API{Router: r, Fail: web.Fail}, &keys{of}, &revocations{of}
	for _, route := range []web.Route{
		{Method: http.MethodPost, Path: "/v1/keys", Handle: k.create},
		{Method: http.MethodDelete, Path: "/v1/keys/:id", Handle: k.delete},
		{Method: http.MethodPost, Path: "/v1/revocations", Handle: v.create},
	} {
		route.Action, route.Admin = access.Admin, true
		a.Add(route)
	}
	a.AddGet(web.Route{Path: "/v1/keys", Query: web.QueryRead, Action: access.Admin, Admin: true, Handle: k.list})
	a.AddGet(web.Route{Path: "/v1/revocations", Query: web.QueryRead, Action: access.Admin, Admin: true,
		Handle: v.list})
	a.NothingBelow("/v1/keys/:id")
}

type keys struct{ registry Registry }

// create is POST /v1/keys.
func (h *keys) create(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	n, err := wire.DecodeNewKey(body.Bytes)
	body.Release()
	if err != nil {
		return err
	}
	by := access.Local()
	if p := c.Principal(); p != nil {
		by = p
	}
	k, text, err := h.registry.Create(c.Context(), accesskeys.NewKey{
		Description: n.Description, Grants: n.Grants, Limits: n.Limits, Expires: n.Expires, CreatedBy: by.Name(),
	})
	if err != nil {
		return inBody(err)
	}
	return c.Value(http.StatusCreated, client.CreatedKey{Key: keyOf(k), Text: text})
}

// delete is DELETE /v1/keys/{id}.
func (h *keys) delete(c *web.Call) error {
	if err := h.registry.Delete(c.Context(), c.Param(0)); err != nil {
		return err
	}
	return c.NoContent()
}

// list is GET /v1/keys.
func (h *keys) list(c *web.Call) error {
	after, limit, err := pageQuery(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	page, next, err := h.registry.Keys(c.Context(), after, limit)
	if err != nil {
		return err
	}
	answer := wire.Keys{Keys: make([]client.Key, 0, len(page)), Cursor: next}
	for _, k := range page {
		answer.Keys = append(answer.Keys, keyOf(k))
	}
	return c.Value(http.StatusOK, answer)
}

func keyOf(k accesskeys.Key) client.Key {
	made := client.Key{
		ID:      k.ID,
		NewKey:  client.NewKey{Description: k.Description, Grants: k.Grants, Expires: k.Expires},
		Created: k.Created, CreatedBy: k.CreatedBy, Configured: k.Configured,
	}
	if k.Limits != (access.Limits{}) {
		made.Limits = k.Limits.String()
	}
	return made
}

// The sizes of pages.
const (
	defaultPage = 100
	maxPage     = 1000
	maxCursor   = 1024 // bytes
)

// pageQuery reads cursor and limit.
func pageQuery(raw string) (after string, limit int, err error) {
	limit = defaultPage
	err = web.ReadQuery(raw, []string{"cursor", "limit"}, func(name, value string) (err error) {
		switch {
		case name == "cursor" && len(value) > maxCursor:
			return web.RefuseParameter(name, "cursor must be that of an answer")
		case name == "cursor":
			after = value
			return nil
		}
		if limit, err = strconv.Atoi(value); err != nil || limit < 1 || limit > maxPage {
			return web.RefuseParameter(name, fmt.Sprintf("limit is %.64q, it must be from 1 to %d", value, maxPage))
		}
		return nil
	})
	return after, limit, err
}

var pointers = strings.NewReplacer(".", "/", "[", "/", "]", "")

// inBody turns the field of an error about a body, such as grants[0].actions, into a JSON pointer.
func inBody(err error) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.Invalid || e.Field == "" {
		return err
	}
	clientErr := *e
	clientErr.Field = "/" + pointers.Replace(e.Field)
	return &clientErr
}
