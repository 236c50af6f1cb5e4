package records

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/client"
)

// Views are the views of an ID.
type Views struct {
	ID       string `json:"id"`
	Slug     string `json:"slug,omitempty"` // by which it was asked for, if it was
	Total    int64  `json:"total"`          // both of these
	Counted  int64  `json:"counted"`        // by this service, and written
	Migrated int64  `json:"migrated"`       // by the last import that is complete
}

// ViewsImport is the state of an import.
type ViewsImport struct {
	IDs      int  `json:"ids"`      // that are there
	Complete bool `json:"complete"` // all are
	Current  bool `json:"current"`  // and no later import is complete
}

// CountViews counts views of up to 256 IDs. The service writes them within a second, and loses them if it crashes
// before. If the answer to a call is lost and the call is repeated, as the client's retries do, the views may count
// twice.
func (c *Client) CountViews(ctx context.Context, views map[string]int64) error {
	_, err := c.service.Do(ctx, client.Call{
		What: "count views", Method: http.MethodPost, Path: []string{"views"}, Body: map[string]any{"views": views},
	}, nil)
	return err
}

// Views returns the views of IDs and slugs, 256 together at most: of the IDs in their order, and of the slugs that are
// known.
func (c *Client) Views(ctx context.Context, ids, slugs []string) ([]Views, error) {
	var answer struct {
		Views []Views `json:"views"`
	}
	_, err := c.service.Do(ctx, client.Call{
		What: "get views", Method: http.MethodGet, Path: []string{"views"}, Query: url.Values{"id": ids, "slug": slugs},
	}, &answer)
	return answer.Views, err
}

// viewsAtOnce is the number of records that one call imports.
const viewsAtOnce = 5000

// ImportViews imports views that another system has counted, and the IDs of slugs, in parts. fields is its hash: the
// views of each ID, and the fields _timestamp and _total, which are the time of the count and the number of records;
// both are checked. Each import replaces earlier ones, once it is complete, so that a repeat changes nothing. progress,
// if it isn't nil, is called with the number of records imported so far. Errors: ErrInvalidImport before anything is
// sent, and those of the service.
func (c *Client) ImportViews(ctx context.Context, fields, slugs map[string]string, progress func(done, all int)) (
	ViewsImport, error) {
	parts, err := partsOf(fields)
	if err != nil {
		return ViewsImport{}, err
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(slugs)), viewsAtOnce) {
		part := make(map[string]string, len(some))
		for _, slug := range some {
			part[slug] = slugs[slug]
		}
		call := client.Call{What: "import slugs", Method: http.MethodPost, Path: []string{"views", "slugs"},
			Body: map[string]any{"slugs": part}}
		if _, err := c.service.Do(ctx, call, nil); err != nil {
			return ViewsImport{}, err
		}
	}
	var state ViewsImport
	done := 0
	for _, part := range parts {
		call := client.Call{What: "import views", Method: http.MethodPost, Path: []string{"views", "import"},
			Body: part}
		if _, err := c.service.Do(ctx, call, &state); err != nil {
			return ViewsImport{}, err
		}
		if done += len(part.Views); progress != nil {
			progress(done, part.Total)
		}
	}
	return state, nil
}

// viewsPart is a part of an import.
type viewsPart struct {
	Timestamp int64            `json:"timestamp"` // when they were counted, in seconds since 1970
	Total     int              `json:"total"`     // IDs of all parts
	Views     map[string]int64 `json:"views"`     // by ID
}

// fraction is that of a time as Python writes it.
var fraction = regexp.MustCompile(`\.[0-9]+$`)

// parseSeconds parses a time in seconds since 1970, whose fraction is cut off.
func parseSeconds(text string) (int64, error) {
	return strconv.ParseInt(fraction.ReplaceAllString(text, ""), 10, 64)
}

// partsOf checks the hash of an import, and splits it into parts.
func partsOf(fields map[string]string) (parts []viewsPart, err error) {
	const fieldAt, fieldTotal = "_timestamp", "_total"
	at, errAt := parseSeconds(fields[fieldAt])
	total, errTotal := strconv.Atoi(fields[fieldTotal])
	switch {
	case errAt != nil:
		return nil, badImport("the field %s is %.32q, it must be seconds since 1970", fieldAt, fields[fieldAt])
	case errTotal != nil || total != len(fields)-2:
		return nil, badImport("the field %s is %.32q, but there are %d records", fieldTotal, fields[fieldTotal],
			len(fields)-2)
	}
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), func(id string) bool {
		return id == fieldAt ||
			id == fieldTotal
	})
	for some := range slices.Chunk(ids, viewsAtOnce) {
		part := viewsPart{Timestamp: at, Total: total, Views: make(map[string]int64, len(some))}
		for _, id := range some {
			if part.Views[id], err = strconv.ParseInt(strings.TrimSuffix(fields[id], ".0"), 10, 64); err != nil {
				return nil, badImport("%.200q has %.32q views, which is no number", id, fields[id])
			}
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func badImport(format string, args ...any) error {
	e := *ErrInvalidImport
	e.Problem.Detail = fmt.Sprintf(format, args...)
	return &e
}
