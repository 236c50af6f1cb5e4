package convert

import (
	"encoding/json"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/openmatch"
)

// ttlField is the name of the value in persistent_field with a ticket's life, as in minimatch's tickets: a
// google.protobuf.Int64Value in nanoseconds.
const ttlField = "ttl"

// TTLOf returns the matching time that a ticket requests in its persistent_field, or 0. A value of another type is the
// caller's own and ignored.
func TTLOf(t *openmatch.Ticket) time.Duration { return ttlOf(t.GetPersistentField()[ttlField]) }

// TTLOfJSON is TTLOf for a persistentField in JSON.
func TTLOfJSON(persistentField map[string]json.RawMessage) time.Duration {
	if text, given := persistentField[ttlField]; given {
		return ttlOf(fromJSON(text))
	}
	return 0
}

func ttlOf(a *anypb.Any) time.Duration {
	nanoseconds := new(wrapperspb.Int64Value)
	if !a.MessageIs(nanoseconds) || a.UnmarshalTo(nanoseconds) != nil {
		return 0
	}
	return time.Duration(nanoseconds.GetValue())
}
