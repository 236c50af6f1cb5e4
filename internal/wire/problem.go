package wire

import (
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
)

// TypePrefix precedes the slug in a problem's type.
const TypePrefix = "urn:tidemark:problem:"

// Media types of answers.
const (
	MediaJSON    = "application/json"
	MediaProblem = "application/problem+json"
)

// Problem is an error in the form of RFC 9457. Its media type is MediaProblem.
type Problem struct {
	Type   string `json:"type"`             // TypePrefix and a slug
	Title  string `json:"title"`            // meaning of the slug
	Status int    `json:"status"`           // the HTTP status
	Detail string `json:"detail,omitempty"` // what is wrong with this request
	// Field is the wrong part of the request: a JSON pointer (RFC 6901) into the body if it starts with "/", otherwise
	// the name of a parameter.
	Field      string `json:"field,omitempty"`
	Offset     *int64 `json:"offset,omitempty"`     // of what is wrong in the body, in bytes from its start
	RequestID  string `json:"requestId,omitempty"`  // as in the header X-Request-Id and in the server's log
	RetryAfter int    `json:"retryAfter,omitempty"` // seconds after which a retry may succeed, as in the header Retry-After
	// OutOfReach is the parts of the storage that failed a readiness check: "channels", "tickets", "sessions" or "cache",
	// followed by slots if it is a part of a Cluster, as in "channels slots 0-5460".
	OutOfReach []string `json:"outOfReach,omitempty"`
}

// NewProblem returns a problem with the title of its slug.
func NewProblem(slug fault.Slug, status int, detail string) *Problem {
	return &Problem{Type: TypePrefix + string(slug), Title: slug.Title(), Status: status, Detail: detail}
}

// Slug returns the slug, or "" if the type is not one of this API's.
func (p *Problem) Slug() fault.Slug {
	slug, ok := strings.CutPrefix(p.Type, TypePrefix)
	if !ok {
		return ""
	}
	return fault.Slug(slug)
}

// InputError is an error in the body or in a parameter of a request.
type InputError struct {
	Slug   fault.Slug // one of the invalid-… slugs
	Detail string     // for people
	Field  string     // as in Problem; may be empty
	Offset int64      // of what is wrong in the body, in bytes from its start; negative: unknown
}

// Error returns the detail.
func (e *InputError) Error() string { return e.Detail }
