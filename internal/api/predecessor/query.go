package predecessor

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// pollQuery reads timeout and max. Both are reduced to the service's limits.
func pollQuery(raw string, limits channel.Limits, q *channel.Query) error {
	if text, ok := queryValue(raw, "timeout"); ok {
		timeout, err := time.ParseDuration(text)
		if err != nil {
			return badQuery(fault.SlugInvalidWait, "timeout", fmt.Sprintf(`Invalid "timeout" parameter %.64q`, text))
		}
		q.Wait = min(max(timeout, 0), limits.MaxWait) // a negative time doesn't wait
	}
	if text, ok := queryValue(raw, "max"); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return badQuery(fault.SlugInvalidMax, "max", fmt.Sprintf(`Invalid "max" parameter %.64q`, text))
		}
		q.Max = min(n, limits.MaxMax)
	}
	return nil
}

// queryValue returns the first value of a query parameter, without a map of all parameters.
func queryValue(raw, name string) (value string, ok bool) {
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		key, escaped, _ := strings.Cut(pair, "=")
		if key != name {
			continue
		}
		if plain, err := url.QueryUnescape(escaped); err == nil {
			return plain, true
		}
	}
	return "", false
}

func badQuery(slug fault.Slug, name, detail string) error {
	return &wire.InputError{Slug: slug, Field: name, Offset: -1, Detail: detail}
}
