// Package diagnose examines a Redis for its operators: [Examine] describes its primaries, with the rights that the
// service's user lacks, [Rights] returns those that it needs, and [Advice] returns what to change after an error.
package diagnose

import "github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"

// Advice returns what to change so that an error of a Redis or of the connection to it doesn't occur again, or "" if
// that isn't known. It is also part of the error's text.
func Advice(err error) string { return refusal.Advice(err) }
