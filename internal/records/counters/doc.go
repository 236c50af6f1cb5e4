// Package counters keeps counters and short-lived data: views of publications, states of processes, and statistics.
//
//   - [Views] counts views in memory and writes them once a second, reads totals, and imports the views of an earlier
//     system.
//   - [States] keeps fields of a process that is running, for an hour at most.
//   - [Stats] keeps counters by hour, day and week, and returns ranges of them.
//
// Each has an interface of its storage, which is safe to repeat: a call whose answer was lost changes nothing a second
// time.
package counters

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/fault"
)

// MaxValue is the largest value of a counter, and -MaxValue the smallest: every JSON parser reads integers up to it
// exactly.
const MaxValue = 1<<53 - 1

// Errors that are returned to clients.
var (
	// ErrRange is the error of a counter whose value would be beyond MaxValue. Nothing was changed.
	ErrRange = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugCounterRange,
		Detail: "the counter would be beyond 2^53-1"}
	// ErrNoState is the error of a state that doesn't exist.
	ErrNoState = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoState, Detail: "the process has no such state"}
	// ErrManyFields is the error of a record that would have too many fields, or too many bytes. Nothing was changed.
	ErrManyFields = &fault.Error{Kind: fault.TooLarge, Slug: fault.SlugManyFields,
		Detail: "the record would have too many fields or bytes"}
	// ErrImport is the error of a part of an import that contradicts earlier parts with its timestamp.
	ErrImport = &fault.Error{
		Kind: fault.Conflict, Slug: fault.SlugImportConflict,
		Detail: "another import has this timestamp: its total differs, or the parts together have more records than the total",
	}
)

func invalid(slug fault.Slug, field, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: slug, Field: field, Detail: fmt.Sprintf(format, args...)}
}
