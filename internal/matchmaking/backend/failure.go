package backend

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/fault"
)

// Codes of google.rpc.Code for failures.
const (
	CodeUnknown           = 2
	CodeDeadlineExceeded  = 4
	CodeResourceExhausted = 8
	CodeUnavailable       = 14
)

// Failure is the error of a match function or an evaluator, for the caller of Fetch.
type Failure struct {
	Code int    // of google.rpc.Code
	Text string // for the caller
	// Detail is what the service answered, or why it could not be reached: for the log, since the caller chose the
	// address. It may be empty.
	Detail string
}

// Error returns the text and the detail.
func (f *Failure) Error() string {
	if f.Detail != "" {
		return f.Text + ": " + f.Detail
	}
	return f.Text
}

func failuref(code int, format string, args ...any) *Failure {
	return &Failure{Code: code, Text: fmt.Sprintf(format, args...)}
}

// The ends of calls.
var (
	// errEnded is the error of calls whose server ends.
	errEnded = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugUnavailable,
		Detail: "the server that fetched matches for this queue has ended; repeat the call"}
	errSlow = &fault.Error{Kind: fault.Limited, Slug: fault.SlugRateLimited,
		Detail: "the caller reads its matches too slowly; the tickets of the matches that it did not get are released"}
	errOverloaded = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugOverloaded,
		Detail: "too many calls of FetchMatches are in progress; repeat the call later"}
	errNoRoom = &Failure{Code: CodeResourceExhausted,
		Text: "the profiles, proposals and unread matches of this server take too much memory; repeat the call later"}
	// errLongFunction is Open Match's text.
	errLongFunction = &Failure{Code: CodeDeadlineExceeded,
		Text: "match function ran longer than proposal window, canceling"}
	errLongCycle = &Failure{Code: CodeDeadlineExceeded,
		Text: "the match functions and the evaluator took longer than the limit for a cycle; cancelled"}
	errTooMany = &Failure{Code: CodeResourceExhausted,
		Text: "the match functions of this cycle have proposed more matches than the limit"}
)

// invalid returns an error of an invalid request.
func invalid(field, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidRequest, Field: field,
		Detail: fmt.Sprintf(format, args...)}
}
