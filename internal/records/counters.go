package records

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/fault"
)

// MaxCounter is the largest value of a counter, and -MaxCounter the smallest: every JSON parser reads integers up to it
// exactly.
const MaxCounter = 1<<53 - 1

// Errors that are returned to clients.
var (
	// ErrCounterRange is the error of a counter whose value would be beyond MaxCounter. Nothing was changed.
	ErrCounterRange = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugCounterRange,
		Detail: "the counter would be beyond 2^53-1"}
	// ErrNoState is the error of a state that doesn't exist.
	ErrNoState = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoState, Detail: "the process has no such state"}
	// ErrManyFields is the error of a record that would have too many fields, or too many bytes. Nothing was changed.
	ErrManyFields = &fault.Error{Kind: fault.TooLarge, Slug: fault.SlugManyFields,
		Detail: "the record would have too many fields or bytes"}
	// ErrImportConflict is the error of a part of an import that contradicts earlier parts with its timestamp.
	ErrImportConflict = &fault.Error{
		Kind: fault.Conflict, Slug: fault.SlugImportConflict,
		Detail: "another import has this timestamp: its total differs, or the parts together have more records than the total",
	}
)

func invalid(slug fault.Slug, field, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: slug, Field: field, Detail: fmt.Sprintf(format, args...)}
}
