package records

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Cache are the operations on cached values, implemented by *records.Values.
type Cache interface {
	CacheReader
	CacheWriter
}

// CacheReader reads values.
type CacheReader interface {
	Get(ctx context.Context, k *records.Kind, id string) ([]byte, error)
	GetMany(ctx context.Context, k *records.Kind, ids []string) ([]records.Entry, error)
}

// CacheWriter writes and removes values.
type CacheWriter interface {
	Put(ctx context.Context, v records.Value) error
	Delete(ctx context.Context, k *records.Kind, id string) error
	InvalidateTags(ctx context.Context, tags []string) (int, error)
	InvalidatePrefix(ctx context.Context, k *records.Kind, prefix string) (int, error)
}

type cacheCalls struct {
	kinds  *records.Table
	values Cache
}

func addCache(a web.API, kinds *records.Table, values Cache) {
	h := &cacheCalls{kinds, values}
	const path = "/v1/cache/:kind/:id"
	a.Add(web.Route{Method: http.MethodPost, Path: "/v1/cache/invalidate", Action: access.Write, Of: nothing,
		Handle: h.invalidate})
	a.Add(web.Route{Method: http.MethodPost, Path: "/v1/cache/:kind/get", Action: access.Read, Of: nothing, Large: true,
		Handle: h.getMany})
	a.AddGet(web.Route{Path: path, Action: access.Read, Of: h.of, Handle: h.get})
	a.Add(web.Route{Method: http.MethodPut, Path: path, Query: web.QueryRead, Action: access.Write, Of: h.of,
		Handle: h.put})
	a.Add(web.Route{Method: http.MethodDelete, Path: path, Action: access.Write, Of: h.of, Handle: h.delete})
	a.NothingBelow(path)
}

const cacheRecords = "cache"

// nothing is the resource of calls with the resources in the body.
func nothing(*web.Call) access.Resource { return access.Resource{} }

// of returns the record of a value, by its canonical ID: other spellings of a search are the same record.
func (h *cacheCalls) of(c *web.Call) access.Resource {
	k, id, err := h.named(c)
	if err != nil {
		return access.Record(cacheRecords, c.Param(0), c.Param(1)) // refused by the handler
	}
	return access.Record(cacheRecords, k.Name, id)
}

// named returns the kind and the canonical ID from the path.
func (h *cacheCalls) named(c *web.Call) (*records.Kind, string, error) {
	k, err := h.kinds.Cache(c.Param(0))
	if err != nil {
		return nil, "", err
	}
	id, err := k.ID(c.Param(1))
	return k, id, err
}

// get is GET /v1/cache/{kind}/{id}.
func (h *cacheCalls) get(c *web.Call) error {
	k, id, err := h.named(c)
	if err != nil {
		return err
	}
	value, err := h.values.Get(c.Context(), k, id)
	if err != nil {
		return err
	}
	return c.Bytes(mediaType(k), value)
}

func mediaType(k *records.Kind) string {
	if k.JSON() {
		return wire.MediaJSON
	}
	return "text/plain; charset=utf-8"
}

// put is PUT /v1/cache/{kind}/{id}.
func (h *cacheCalls) put(c *web.Call) error {
	k, id, err := h.named(c)
	if err != nil {
		return err
	}
	v := records.Value{Key: records.CacheKey{Kind: k, ID: id}}
	if err := putQuery(c, &v); err != nil {
		return err
	}
	body, err := c.Body()
	if err != nil {
		return err
	}
	v.Bytes, v.Checked = body.Bytes, c.Decoded
	if err := h.values.Put(c.Context(), v); err != nil {
		return err // the body isn't released: an abandoned write may still be in progress
	}
	body.Release()
	return c.NoContent()
}

// putQuery reads ttl and tags.
func putQuery(c *web.Call, v *records.Value) error {
	return web.ReadQuery(c.Request().URL.RawQuery, []string{"ttl", "tags"}, func(name, value string) (err error) {
		switch {
		case value == "":
		case name == "tags":
			v.Tags = strings.Split(value, ",")
		default:
			if v.TTL, err = time.ParseDuration(value); err != nil || v.TTL <= 0 {
				return web.RefuseParameter(name, fmt.Sprintf("ttl is %.64q, it must be a duration such as 30s", value))
			}
		}
		return nil
	})
}

// delete is DELETE /v1/cache/{kind}/{id}.
func (h *cacheCalls) delete(c *web.Call) error {
	k, id, err := h.named(c)
	if err != nil {
		return err
	}
	if err := h.values.Delete(c.Context(), k, id); err != nil {
		return err
	}
	return c.NoContent()
}

// getMany is POST /v1/cache/{kind}/get.
func (h *cacheCalls) getMany(c *web.Call) error {
	k, err := h.kinds.Cache(c.Param(0))
	if err != nil {
		return err
	}
	request, err := decode[wire.CacheRequest](c)
	if err != nil {
		return err
	}
	if err := records.CheckMany(request.IDs); err != nil {
		return err
	}
	ids := make([]string, 0, len(request.IDs))
	for _, id := range request.IDs {
		id, err := k.ID(id)
		if err != nil {
			return err
		}
		if err := c.Allow(access.Read, access.Record(cacheRecords, k.Name, id)); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	entries, err := h.values.GetMany(c.Context(), k, ids)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, manyOf(k, request.IDs, entries))
}

// manyOf returns the answer for the entries of the first IDs.
func manyOf(k *records.Kind, ids []string, entries []records.Entry) wire.CachedValues {
	answer := wire.CachedValues{Values: []wire.CachedValue{}, Missing: []string{},
		Left: append([]string{}, ids[len(entries):]...)}
	for i, e := range entries {
		value := json.RawMessage(e.Bytes)
		if e.Found && !k.JSON() {
			value, _ = json.Marshal(string(e.Bytes)) // a string is always valid as JSON
		}
		if !e.Found {
			answer.Missing = append(answer.Missing, ids[i])
			continue
		}
		answer.Values = append(answer.Values, wire.CachedValue{ID: ids[i], Value: value})
	}
	return answer
}

var errInvalidation = &wire.InputError{Slug: fault.SlugInvalidBody,
	Detail: "either tags or kind must be given, and prefix only with kind", Offset: -1}

// invalidate is POST /v1/cache/invalidate. It can affect IDs outside a grant, and so needs a grant for all.
func (h *cacheCalls) invalidate(c *web.Call) error {
	request, err := decode[wire.Invalidation](c)
	if err != nil {
		return err
	}
	if (len(request.Tags) > 0) == (request.Kind != "") || request.Kind == "" && request.Prefix != "" {
		return errInvalidation
	}
	var answer wire.Invalidated
	if request.Kind == "" {
		if err := c.Allow(access.Write, access.Record(cacheRecords, "")); err != nil {
			return err
		}
		answer.Values, err = h.values.InvalidateTags(c.Context(), request.Tags)
	} else {
		k, errKind := h.kinds.Cache(request.Kind)
		if errKind != nil {
			return errKind
		}
		if err := c.Allow(access.Write, access.Record(cacheRecords, k.Name, "")); err != nil {
			return err
		}
		answer.Values, err = h.values.InvalidatePrefix(c.Context(), k, request.Prefix)
	}
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, answer)
}
