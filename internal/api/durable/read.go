package durable

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// chunkBytes is how much of a stream a read returns, but always one message.
const chunkBytes = 1 << 20

// longPoll is how long a long poll waits, if the service lets it.
const longPoll = 30 * time.Second

// readQuery is the query of a read.
type readQuery struct {
	offset    string
	hasOffset bool
	live      string
	cursor    string
}

// The values of parameters.
const (
	fromBeginning = "-1"
	fromNow       = "now"
	livePoll      = "long-poll"
	liveEvents    = "sse"
)

// parseQuery reads the query. Parameters that the protocol doesn't have are ignored.
func parseQuery(raw string) (q readQuery, err error) {
	seen := map[string]bool{}
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		name, value, _ := strings.Cut(pair, "=")
		name, bad := url.QueryUnescape(name)
		if bad != nil || name != "offset" && name != "live" && name != "cursor" {
			continue
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return q, web.RefuseParameter(name, fmt.Sprintf("the parameter %s has an invalid percent-escape", name))
		}
		if seen[name] {
			return q, web.RefuseParameter(name, "the query parameter "+name+" is given twice")
		}
		seen[name] = true
		switch name {
		case "offset":
			q.offset, q.hasOffset = value, true
		case "live":
			q.live = value
		default:
			q.cursor = value
		}
	}
	switch {
	case q.live != "" && q.live != livePoll && q.live != liveEvents:
		return q, web.RefuseParameter("live", fmt.Sprintf("live is %.64q, it must be long-poll or sse", q.live))
	case q.live != "" && !q.hasOffset:
		return q, web.RefuseParameter("offset", "offset is missing, which a live read needs; -1 is the beginning")
	case !q.hasOffset:
		q.offset = fromBeginning
	}
	return q, nil
}

// start sets where a reading begins.
func (q *readQuery) start(to *channel.ReadQuery) error {
	switch q.offset {
	case fromBeginning:
		to.From = channel.From{Start: channel.StartEarliest}
	case fromNow:
		to.From = channel.From{Start: channel.StartLatest}
	default:
		after, err := channel.ParseOffset(q.offset)
		if err != nil {
			return err
		}
		to.After = &after
	}
	return nil
}

// read is GET of a stream.
func (d *api) read(c *web.Call) error {
	name, err := d.name(c)
	if err != nil {
		return err
	}
	q, err := parseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	limits := d.limits()
	from := channel.ReadQuery{Channel: name, Max: limits.MaxMax, MaxBytes: chunkBytes}
	if err := q.start(&from); err != nil {
		return err
	}
	if q.live == liveEvents {
		return d.events(c, &q, from)
	}
	if q.live == livePoll {
		from.Wait = min(longPoll, limits.MaxWait)
	}
	r, err := d.channels.Read(c.Context(), from)
	if err == nil {
		err = checkHistory(&from, &r)
	}
	if err != nil {
		return err
	}
	return d.answer(c, &q, &r)
}

// checkHistory returns an error unless a reading has all messages after its offset.
func checkHistory(from *channel.ReadQuery, r *channel.Reading) error {
	detail := ""
	switch {
	case from.After == nil:
		return nil
	case r.Lost && r.Epoch != from.After.Epoch:
		detail = "the offset is of an earlier stream of this path, or of another one"
	case r.Lost:
		detail = "the stream has no such offset: the storage has lost what followed it, or it was never one of this stream"
	case r.Missing > 0:
		detail = "messages after the offset have expired, or were purged"
	default:
		return nil
	}
	return &fault.Error{Kind: fault.Gone, Slug: fault.SlugOffsetGone, Field: "offset", Detail: detail}
}

// answer answers a read.
func (d *api) answer(c *web.Call, q *readQuery, r *channel.Reading) error {
	header := c.Response().Header()
	next := r.Through.Text(r.First)
	header.Set(streamNext, next)
	if !r.More {
		header.Set(streamUpToDate, yes)
	}
	if r.Ended() {
		header.Set(streamClosed, yes)
	}
	if q.live == livePoll {
		header.Set(streamCursor, cursor(q.cursor, time.Now()))
		if len(r.Messages) == 0 && !r.More {
			if err := web.Lapsed(c.Context()); err != nil {
				return err
			}
			return c.NoContent()
		}
	}
	if q.offset == fromBeginning && (r.Missing > 0 || isTruncated(r)) {
		header.Set(streamTruncated, yes)
	}
	if q.offset != fromNow {
		etag := etagOf(r, next)
		header.Set(headerETag, etag)
		c.SetCaching(caching(c.Principal(), r))
		if q.live == "" && isListed(c.Request().Header.Values(headerIfNoneMatch), etag) {
			return c.Empty(http.StatusNotModified)
		}
	}
	size, encode := bodyOf(r)
	return c.AppendBytes(typeOf(&r.Life), size, encode)
}

// isTruncated reports whether a reading from the beginning lacks the first message of the stream.
func isTruncated(r *channel.Reading) bool {
	if len(r.Messages) > 0 {
		return r.Messages[0].Clock != r.First.Next()
	}
	return r.Through.Clock != r.First
}

// etagOf returns the entity tag of a reading: where it begins, where it ends, and whether the stream does, too.
func etagOf(r *channel.Reading, next string) string {
	begin := r.Through.Clock
	if len(r.Messages) > 0 {
		begin = r.Messages[0].Clock
	}
	end := ""
	if r.Ended() {
		end = ":c"
	}
	return fmt.Sprintf(`"%d:%s%s"`, begin, next, end)
}

// isListed reports whether a list of entity tags has one.
func isListed(lists []string, etag string) bool {
	return slices.ContainsFunc(lists, func(list string) bool {
		for tag := range strings.SplitSeq(list, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
		return false
	})
}

// cacheFor is how long a cache may keep a chunk, and cacheStale how long it may return it while it asks for a new one.
const (
	cacheFor   = time.Minute
	cacheStale = 5 * time.Minute
)

// caching returns the header Cache-Control of a chunk. Shared caches may keep what anybody may read. What is returned for
// an offset without messages changes with the next one.
func caching(p *access.Principal, r *channel.Reading) string {
	keep, scope := cacheFor, "private"
	if p == nil || p.Kind == access.Nobody {
		scope = "public"
	}
	if r.TTL > 0 {
		keep = min(keep, r.TTL)
	}
	if !r.Ends.IsZero() {
		keep = min(keep, time.Until(r.Ends))
	}
	if len(r.Messages) == 0 || keep < time.Second {
		return "no-cache"
	}
	stale := cacheStale
	if keep < cacheFor {
		stale = 0
	}
	return fmt.Sprintf("%s, max-age=%d, stale-while-revalidate=%d", scope, int(keep.Seconds()), int(stale.Seconds()))
}

// bodyOf returns the size of the body for messages at most, and what appends it.
func bodyOf(r *channel.Reading) (size int, encode func([]byte) []byte) {
	asJSON := isJSON(&r.Life)
	for i := range r.Messages {
		size += len(r.Messages[i].Content) + 1
		if r.Messages[i].ContentType != "" {
			size += len(r.Messages[i].Content)/2 + 4
		}
	}
	return size + 2, func(b []byte) []byte { return appendBody(b, r.Messages, asJSON) }
}

// appendBody appends messages: one after the other, or as an array.
func appendBody(b []byte, messages []channel.Message, asJSON bool) []byte {
	if !asJSON {
		for i := range messages {
			b = append(b, messages[i].Content...)
		}
		return b
	}
	b = append(b, '[')
	for i := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		if messages[i].ContentType == "" {
			b = append(b, messages[i].Content...)
			continue
		}
		b = append(b, '"') // of a channel whose messages have types of their own
		b = append(base64.StdEncoding.AppendEncode(b, messages[i].Content), '"')
	}
	return append(b, ']')
}

// The intervals of cursors.
const (
	cursorInterval = 20 * time.Second
	maxJitter      = time.Hour
	maxCursor      = 1 << 52
)

var cursorEpoch = time.Date(2024, time.October, 9, 0, 0, 0, 0, time.UTC)

// cursor returns the cursor of a live answer for that of the request: the number of the current interval or, if the
// client is there already, a random later one. So a client never gets the same answer from a cache again and again.
func cursor(sent string, now time.Time) string {
	current := uint64(now.Sub(cursorEpoch) / cursorInterval)
	has, err := strconv.ParseUint(sent, 10, 64)
	if err != nil || has < current || has > maxCursor {
		return strconv.FormatUint(current, 10)
	}
	jitter := 1 + rand.N(uint64(maxJitter/cursorInterval)) //nolint:gosec // chance to spread requests, not to keep a secret
	return strconv.FormatUint(has+jitter, 10)
}
