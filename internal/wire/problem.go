package wire

import (
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
)

// Media types of answers.
const (
	MediaJSON    = "application/json"
	MediaProblem = "application/problem+json"
)

// NewProblem returns a problem with the title of its slug.
func NewProblem(slug fault.Slug, status int, detail string) *client.Problem {
	return &client.Problem{Type: client.TypePrefix + string(slug), Title: slug.Title(), Status: status, Detail: detail}
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
