package access

import (
	"fmt"
	"slices"
	"strings"
)

// Action is an action of a principal.
type Action string

// The actions.
const (
	Publish   Action = "publish"   // to a channel
	Subscribe Action = "subscribe" // subscribe to a channel, fetch, acknowledge, unsubscribe, tail
	Describe  Action = "describe"  // describe a channel
	Ticket    Action = "ticket"    // create, read, watch and cancel tickets
	Queue     Action = "queue"     // read queues, their tickets and their backfills
	Direct    Action = "direct"    // direct queues: fetch matches, assign and release tickets
	Backfill  Action = "backfill"  // create, read, update, acknowledge and delete backfills
	Read      Action = "read"      // read records: sessions, settings, caches and the like
	Write     Action = "write"     // create, change and delete records
	Metrics   Action = "metrics"   // read the metrics, as Admin does
	Admin     Action = "admin"     // calls that only the admin listener serves
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{Publish, Subscribe, Describe, Ticket, Queue, Direct, Backfill, Read, Write, Metrics, Admin}
}

// Any is the action of checks that any grant passes, whatever its actions.
const Any Action = "any"

// UnmarshalText refuses an action that doesn't exist.
func (a *Action) UnmarshalText(text []byte) error {
	if action := Action(text); slices.Contains(Actions(), action) {
		*a = action
		return nil
	}
	return fmt.Errorf("%.32q isn't an action: use publish, subscribe, describe, ticket, queue, direct, backfill, read, "+
		"write, metrics or admin", text)
}

// Resource is the object of an action. Fields that do not apply to the action are empty. The zero Resource is the
// service as a whole: the action is allowed if it is allowed on at least one resource.
type Resource struct {
	Channel    string
	Subscriber string // of Channel
	Tail       bool   // the messages of Channel without a subscriber: for all who may subscribe under any name
	Ticket     string // its ID
	Queue      string // "*" stands for all queues
	Record     string // as Record makes it: "<resource>/<id>"
}

// Record returns a record: its resource, such as "locks", and the IDs of its path, such as an operation and an entity.
// In IDs "/" and "%" are percent-encoded, so that one ID can't be read as two. A last ID of "" stands for all IDs
// there. Without IDs it is the whole resource.
func Record(resource string, ids ...string) Resource {
	var b strings.Builder
	b.WriteString(resource)
	for _, id := range ids {
		b.WriteByte('/')
		b.WriteString(separators.Replace(id))
	}
	return Resource{Record: b.String()}
}

var separators = strings.NewReplacer("/", "%2F", "%", "%25")
