package access

import "fmt"

// Action is what a principal does.
type Action string

// The actions.
const (
	Publish   Action = "publish"   // to a channel
	Subscribe Action = "subscribe" // subscribe to a channel, fetch, acknowledge, unsubscribe
	Describe  Action = "describe"  // read what a channel is like
	Ticket    Action = "ticket"    // create, read, watch and cancel tickets
	Queue     Action = "queue"     // read queues and what waits in them
	Admin     Action = "admin"     // what only the admin listener serves
)

// Any stands for any action, in a check of what everybody may do who may do anything.
const Any Action = "any"

// UnmarshalText refuses an action that doesn't exist.
func (a *Action) UnmarshalText(text []byte) error {
	switch known := Action(text); known {
	case Publish, Subscribe, Describe, Ticket, Queue, Admin:
		*a = known
		return nil
	case Any: // no grant has it
	}
	return fmt.Errorf("%.32q is no action (publish, subscribe, describe, ticket, queue, admin)", text)
}

// Resource is what an action is done to. Fields that the action isn't about are empty. The zero Resource is the service as a
// whole: whoever may do the action to anything may do it.
type Resource struct {
	Channel    string
	Subscriber string // of Channel
	Ticket     string // its ID
	Queue      string // "*" stands for all queues
}
