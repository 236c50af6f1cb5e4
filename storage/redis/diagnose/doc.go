// Package diagnose examines a Redis for its operators: [Examine] describes its primaries, with the abilities that they
// or the service's user lack, [Check] looks for those at the start of a service, [SlowLogs] reads slow logs, [Rights]
// returns the rights that the user needs, and [Explanation] returns what to change after an error.
package diagnose

import (
	"errors"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
)

// Explanation returns the cause of an error of a Redis, or of the connection to it, for its operators, and what to
// change so that it doesn't occur again, or "" if that isn't known. Both are empty for nil.
func Explanation(err error) (cause, advice string) {
	if err == nil {
		return "", ""
	}
	advice = refusal.Advice(err)
	var told *fault.Error
	if errors.As(err, &told) && advice != "" && told.Cause != nil {
		err = told.Cause // the other text is for clients
	}
	return strings.TrimSuffix(err.Error(), "; "+advice), advice
}
