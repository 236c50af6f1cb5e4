package admin

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Status returns the state of this server, of the other servers and of Redis. Its methods read memory only.
type Status interface {
	// History returns the points after a time in Unix milliseconds, of the server, or of a queue.
	History(since int64, queue string) wire.History
	Servers() wire.Servers
	Problems() wire.Problems
	Storage() wire.StorageStates
}

// addStatus adds the routes of a Status.
func addStatus(r *web.Router, of Status) {
	a, s := web.API{Router: r, Fail: web.Fail}, &status{of}
	a.AddGet(web.Route{Path: "/v1/history", Query: web.QueryRead, Action: access.Metrics, Admin: true,
		Handle: s.history})
	for path, answer := range map[string]func() any{
		"/v1/servers":  func() any { return of.Servers() },
		"/v1/problems": func() any { return of.Problems() },
		"/v1/storage":  func() any { return of.Storage() },
	} {
		a.AddGet(web.Route{Path: path, Action: access.Admin, Admin: true,
			Handle: func(c *web.Call) error { return c.Value(http.StatusOK, answer()) }})
	}
}

type status struct{ of Status }

// history is GET /v1/history.
func (h *status) history(c *web.Call) error {
	since, queue := int64(0), ""
	err := web.ReadQuery(c.Request().URL.RawQuery, []string{"since", "queue"}, func(name, value string) (err error) {
		if name == "queue" {
			queue = value
			return nil
		}
		if since, err = strconv.ParseInt(value, 10, 64); err != nil || since < 0 {
			return web.RefuseParameter(name, "since must be the through of an earlier answer: a Unix time in milliseconds")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return answerCompressed(c, h.of.History(since, queue))
}

// longBytes is the size from which on an answer is compressed. Polls for the last points are shorter.
const longBytes = 4 << 10

// answerCompressed answers with the JSON of v, compressed if it is long and the client accepts that.
func answerCompressed(c *web.Call, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	text = append(text, '\n')
	header := c.Response().Header()
	header.Set("Vary", "Accept-Encoding")
	if len(text) >= longBytes && inList(c.Request().Header.Values("Accept-Encoding"), "gzip") {
		var short bytes.Buffer
		w := gzip.NewWriter(&short)
		if _, err := w.Write(text); err != nil {
			return fmt.Errorf("compress the answer: %w", err)
		}
		if err := w.Close(); err != nil {
			return fmt.Errorf("compress the answer: %w", err)
		}
		header.Set("Content-Encoding", "gzip")
		text = short.Bytes()
	}
	if err := c.Bytes(wire.MediaJSON, text); err != nil {
		header.Del("Content-Encoding") // the error isn't compressed
		return err
	}
	return nil
}

// Shards describes how a cache is split, or, without a name, the caches that the service reads through nodes. Errors:
// fault.SlugInvalidQuery and those of the store.
type Shards func(ctx context.Context, cache string) (wire.ShardedCaches, error)

func addShards(r *web.Router, of Shards) {
	web.API{Router: r, Fail: web.Fail}.AddGet(web.Route{Path: "/v1/shards", Query: web.QueryRead, Action: access.Admin,
		Admin: true, Handle: of.show})
}

// show is GET /v1/shards.
func (s Shards) show(c *web.Call) error {
	cache := ""
	err := web.ReadQuery(c.Request().URL.RawQuery, []string{"cache"}, func(_, value string) error {
		cache = value
		return nil
	})
	if err != nil {
		return err
	}
	answer, err := s(c.Context(), cache)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, answer)
}
