package backend

import (
	"errors"
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
	Code int    `json:"code"` // of google.rpc.Code
	Text string `json:"text"` // for the caller
	// Detail is what the service answered, or why it could not be reached: for the log, since the caller chose the
	// address. It may be empty.
	Detail string `json:"detail,omitempty"`
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
	// errChanged is the error of calls whose synchronizer has ended.
	errChanged = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugUnavailable,
		Detail: "the server that fetched matches for this queue has ended or was replaced; repeat the call"}
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

// told is the form in which an error of a call is handed over to another server.
type told struct {
	Failure *Failure     `json:"failure,omitempty"`
	Fault   *fault.Error `json:"fault,omitempty"`
	Other   string       `json:"other,omitempty"`
}

// tellError returns the form of an error; nil for none.
func tellError(err error) *told {
	var failure *Failure
	var f *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failure):
		return &told{Failure: failure}
	case errors.As(err, &f):
		return &told{Fault: f}
	}
	return &told{Other: err.Error()}
}

// err returns the error again.
func (t *told) err() error {
	switch {
	case t == nil:
		return nil
	case t.Failure != nil:
		return t.Failure
	case t.Fault != nil:
		return t.Fault
	}
	return errors.New(t.Other)
}
