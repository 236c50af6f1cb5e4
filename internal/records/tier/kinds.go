package tier

import (
	"errors"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// ErrKind is wrapped by the errors for kinds that the tier doesn't support.
var ErrKind = errors.New("the kind can't be read through shards: it has no values that are cached by an ID")

// Find returns the kind with a name in a table, if the tier supports it: it has cached values. All of
// them are written by one store, which announces each change; a TTL ends a value in the tier as it does in Redis. For
// values that end within minutes the tier is of little use: each is announced when it is stored, and read by a node of
// each data centre. Errors: ErrKind.
func Find(t *records.Table, name string) (*records.Kind, error) {
	kind, err := t.Cache(name)
	if err != nil {
		return nil, ErrKind
	}
	return kind, nil
}
