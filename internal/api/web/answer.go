package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Names of headers, in net/http's canonical form.
const (
	headerLocation       = "Location"
	headerRequestID      = "X-Request-Id"
	headerRetryAfter     = "Retry-After"
	headerContentType    = "Content-Type"
	headerContentLength  = "Content-Length"
	headerCacheControl   = "Cache-Control"
	headerConnection     = "Connection"
	headerSniffing       = "X-Content-Type-Options"
	headerChallenge      = "Www-Authenticate"
	headerResourcePolicy = "Cross-Origin-Resource-Policy"

	headerRateLimit       = "Ratelimit"
	headerRateLimitPolicy = "Ratelimit-Policy"
)

// Values of headers that many answers share. They must not be changed.
var (
	contentJSON    = []string{wire.MediaJSON}
	contentProblem = []string{wire.MediaProblem}
	noStore        = []string{"no-store"}
	privateNoStore = []string{"private, no-store"} // RFC 6750 asks for it
	noSniffing     = []string{"nosniff"}
	sameOrigin     = []string{"same-origin"}
	lastAnswer     = []string{"close"}
)

// errNotUTF8 is the error of an answer that not all clients could parse: what it was made of is damaged in the storage.
var errNotUTF8 = errors.New("a value isn't UTF-8")

// Value answers with the JSON of v, by reflection. It returns an error in place of the answer if the client's
// credential has ended the call.
func (c *Call) Value(status int, v any) error {
	if err := c.lapsed(); err != nil {
		return err
	}
	body, err := json.Marshal(v)
	c.share.EndTurn() // before the client reads
	if err == nil && !utf8.Valid(body) {
		err = errNotUTF8
	}
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return c.write(status, contentJSON, append(body, '\n'))
}

// Append answers with JSON that appendJSON appends to a buffer with room for size bytes. It returns an error as Value
// does.
func (c *Call) Append(status, size int, appendJSON func([]byte) []byte) error {
	return c.append(status, contentJSON, size, func(b []byte) []byte { return append(appendJSON(b), '\n') })
}

// AppendBytes answers 200 with a body of a media type that appendBody appends to a buffer with room for size bytes. It
// returns an error as Value does.
func (c *Call) AppendBytes(mediaType string, size int, appendBody func([]byte) []byte) error {
	return c.append(http.StatusOK, []string{mediaType}, size, appendBody)
}

func (c *Call) append(status int, mediaType []string, size int, appendBody func([]byte) []byte) error {
	if err := c.lapsed(); err != nil {
		return err
	}
	if err := c.unsent.Grow(int64(size)); err != nil {
		return err
	}
	out := newBuffer(size)
	defer out.Release()
	out.Bytes = appendBody(out.Bytes)
	return c.write(status, mediaType, out.Bytes)
}

// Bytes answers 200 with a body of a media type. It returns an error as Value does.
func (c *Call) Bytes(mediaType string, body []byte) error {
	if err := c.lapsed(); err != nil {
		return err
	}
	return c.write(http.StatusOK, []string{mediaType}, body)
}

// Redirect answers 303 with the address of another page, relative to that of the request: a proxy may have the service
// below a path.
func (c *Call) Redirect(path string) error {
	c.response.Header()[headerLocation] = []string{path}
	c.begin(http.StatusSeeOther)
	return nil
}

// NoContent answers 204.
func (c *Call) NoContent() error { return c.Empty(http.StatusNoContent) }

// Empty answers without a body.
func (c *Call) Empty(status int) error {
	c.begin(status)
	return nil
}

// SetCaching sets the header Cache-Control of an answer other than a problem, which is no-store otherwise. It has no
// effect if the client's credential was in the query.
func (c *Call) SetCaching(value string) { c.caching = []string{value} }

// SetLocation sets the header with the path of the created object.
func (c *Call) SetLocation(path string) { c.response.Header()[headerLocation] = []string{path} }

// SetRetryAfter sets the header Retry-After, in seconds. 0 sets none.
func (c *Call) SetRetryAfter(seconds int) {
	if seconds > 0 {
		c.response.Header()[headerRetryAfter] = []string{strconv.Itoa(seconds)}
	}
}

// AnswerTimeout is how long a client may take to read an answer, on top of the longest wait.
const AnswerTimeout = 2 * time.Minute

// unknownLengthBytes is the length from which on net/http doesn't count a body by itself.
const unknownLengthBytes = 2048

// write answers with a body of a media type, unless the client or all clients leave too much unread.
func (c *Call) write(status int, mediaType []string, body []byte) error {
	if err := c.unsent.Grow(int64(len(body))); err != nil {
		return err
	}
	c.unsent.Shrink(int64(len(body)))
	header := c.response.Header()
	header[headerContentType] = mediaType
	if len(body) >= unknownLengthBytes {
		header[headerContentLength] = []string{strconv.Itoa(len(body))}
	}
	c.begin(status)
	if _, err := c.response.Write(body); err != nil {
		c.err = writeError(err) // the client has disconnected, or reads too slowly
	}
	return nil
}

// begin starts the answer. Its headers are made here and not before, so that a waiting fetch doesn't hold them.
func (c *Call) begin(status int) {
	c.status = status
	c.leaveBody()
	c.SetHeaders()
	c.response.WriteHeader(status)
}

// SetHeaders sets the headers of every answer.
func (c *Call) SetHeaders() {
	header := c.response.Header()
	header[headerRequestID] = c.id[:]
	setSafetyHeaders(header)
	if c.caching != nil {
		header[headerCacheControl] = c.caching
	}
	if c.inQuery {
		header[headerCacheControl] = privateNoStore
	}
	if c.route.router.Limited() {
		c.setRateLimit(header)
	}
	c.CloseIfLast()
}

// setRateLimit sets the headers with the remaining requests of a client that has a limit of them, as in
// draft-ietf-httpapi-ratelimit-headers.
func (c *Call) setRateLimit(header http.Header) {
	s, ok := limits.From(c.ctx).Standing()
	if !ok {
		return
	}
	const name = `"` + access.LimitRequests + `"`
	seconds := func(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }
	header[headerRateLimitPolicy] = []string{name + ";q=" + strconv.Itoa(s.Limit.Count) + ";w=" + seconds(s.Limit.Per)}
	header[headerRateLimit] = []string{name + ";r=" + strconv.Itoa(s.Remaining) + ";t=" + seconds(s.Reset)}
}

// setSafetyHeaders keeps browsers and caches from storing an answer, from guessing another media type, and from using
// it in pages of other origins: those of CORS ask by CORS, to which this doesn't apply.
func setSafetyHeaders(header http.Header) {
	header[headerCacheControl] = noStore
	header[headerSniffing] = noSniffing
	header[headerResourcePolicy] = sameOrigin
}

// CloseIfLast sets the header that closes the connection if the server is draining, or other clients need the place of
// the connection. On HTTP/2 net/http sends GOAWAY in place of the header, and a connection with other calls stays open
// beside its successor: it is closed only for a call that wasn't admitted.
func (c *Call) CloseIfLast() {
	if c.reserved || c.route.router.IsDraining() ||
		(!c.admitted || c.request.ProtoMajor == 1) && c.place.Wanted(c.admitted) {
		c.response.Header()[headerConnection] = lastAnswer
	}
}
