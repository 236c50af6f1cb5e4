package records

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/client"
)

// PutOptions are options of PutCached.
type PutOptions struct {
	TTL  time.Duration // 0: that of the kind
	Tags []string      // at most 8, without commas: the value can be invalidated by each of them
}

// PutCached stores a value of a kind, such as author, in the cache: JSON, or the text of an author-slug. Errors:
// ErrInvalidID, ErrInvalidValue, ErrValueTooLarge, ErrNoKind, ErrTagFull.
func (c *Client) PutCached(ctx context.Context, kind, id string, value []byte, o PutOptions) error {
	query := url.Values{}
	if o.TTL != 0 {
		query.Set("ttl", o.TTL.String())
	}
	if len(o.Tags) > 0 {
		query.Set("tags", strings.Join(o.Tags, ","))
	}
	call := client.Call{What: "put " + kind + " " + id, Method: http.MethodPut, Path: []string{"cache", kind, id},
		Query: query, Body: json.RawMessage(value)}
	_, err := c.service.Do(ctx, call, nil)
	return err
}

// Cached returns a value of the cache, byte for byte. Errors: ErrNotCached, ErrInvalidID, ErrNoKind.
func (c *Client) Cached(ctx context.Context, kind, id string) (value []byte, err error) {
	_, err = c.service.Do(ctx, client.Call{What: "get " + kind + " " + id, Method: http.MethodGet,
		Path: []string{"cache", kind, id}}, &value)
	return value, err
}

// manyCached is the number of IDs in one call.
const manyCached = 256

// CachedMany returns the cached values, as JSON, by the requested IDs: an author-slug as a string. Errors:
// ErrInvalidID, ErrNoKind.
func (c *Client) CachedMany(ctx context.Context, kind string, ids []string) (map[string]json.RawMessage, error) {
	found := make(map[string]json.RawMessage, len(ids))
	for len(ids) > 0 {
		now := ids[:min(len(ids), manyCached)]
		var answer struct {
			Values []struct {
				ID    string          `json:"id"`
				Value json.RawMessage `json:"value"`
			} `json:"values"`
			Left []string `json:"left"` // not looked for, since the answer would be too large
		}
		call := client.Call{What: "get many of " + kind, Method: http.MethodPost, Path: []string{"cache", kind, "get"},
			Body: map[string][]string{"ids": now}}
		if _, err := c.service.Do(ctx, call, &answer); err != nil {
			return nil, err
		}
		for _, v := range answer.Values {
			found[v.ID] = v.Value
		}
		ids = ids[max(1, len(now)-len(answer.Left)):] // the service returns at least one
	}
	return found, nil
}

// DeleteCached removes a value from the cache. Errors: ErrInvalidID, ErrNoKind.
func (c *Client) DeleteCached(ctx context.Context, kind, id string) error {
	_, err := c.service.Do(ctx, client.Call{What: "delete " + kind + " " + id, Method: http.MethodDelete,
		Path: []string{"cache", kind, id}}, nil)
	return err
}

// InvalidateTags removes the values of all kinds that have one of the tags, 256 at most, from the cache. It returns the
// number of values with these tags, expired ones included.
func (c *Client) InvalidateTags(ctx context.Context, tags ...string) (int, error) {
	return c.invalidate(ctx, invalidation{Tags: tags})
}

// InvalidatePrefix removes the lists or searches whose IDs begin with a prefix from the cache: all with "". The kind is
// shouts, topic-shouts or search. It returns their number, as InvalidateTags does. Errors: ErrNoKind, ErrInvalidID.
func (c *Client) InvalidatePrefix(ctx context.Context, kind, prefix string) (int, error) {
	return c.invalidate(ctx, invalidation{Kind: kind, Prefix: prefix})
}

// invalidation selects the values to remove.
type invalidation struct {
	Tags   []string `json:"tags,omitempty"`
	Kind   string   `json:"kind,omitempty"`
	Prefix string   `json:"prefix,omitempty"`
}

func (c *Client) invalidate(ctx context.Context, selection invalidation) (int, error) {
	var done struct {
		Values int `json:"values"`
	}
	_, err := c.service.Do(ctx, client.Call{What: "invalidate", Method: http.MethodPost,
		Path: []string{"cache", "invalidate"}, Body: selection}, &done)
	return done.Values, err
}
