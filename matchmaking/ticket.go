package matchmaking

import (
	"encoding/json"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// Subscriber is the name of the subscriber that a ticket's channel is made with.
const Subscriber = "player"

// ChannelPrefix is what the channels of tickets start with. The ticket's ID follows.
const ChannelPrefix = "ticket."

// MessagePrefix is what the IDs of assignments' messages start with. The match's ID follows.
const MessagePrefix = "assignment-"

// ChannelOf names the channel of a ticket.
func ChannelOf(ticketID string) string { return ChannelPrefix + ticketID }

// Status is where a ticket stands.
type Status string

// The statuses of tickets.
const (
	Searching  Status = "SEARCHING"   // it can be claimed
	Pending    Status = "PENDING"     // a director holds it, until the claim's deadline
	MatchFound Status = "MATCH_FOUND" // it is assigned
	Cancelled  Status = "CANCELLED"   // its player gave it up
	Expired    Status = "EXPIRED"     // its life ended before there was a match
)

// Spec is what a player asks for. It never changes. Who has one doesn't write to what it refers to.
type Spec struct {
	SearchFields SearchFields `json:"searchFields,omitzero"`
	// Criteria say which other tickets this one accepts, by their statistics: one of those with the same name, and
	// each of the names.
	Criteria   []Criterion `json:"criteria,omitempty"`
	Statistics []Statistic `json:"statistics,omitempty"`
	NumTeams   int         `json:"numTeams,omitempty"` // of the match that is wanted; 0: the queue's
	TeamSize   int         `json:"teamSize,omitempty"` // of the match that is wanted; 0: the queue's
	// Extensions and PersistentField are the caller's own: JSON by name. What came as a protobuf Any is an object
	// with "@type".
	Extensions      map[string]json.RawMessage `json:"extensions,omitempty"`
	PersistentField map[string]json.RawMessage `json:"persistentField,omitempty"`
}

// SearchFields are what a pool's filters look at.
type SearchFields struct {
	Tags       []string          `json:"tags,omitempty"`
	DoubleArgs Doubles           `json:"doubleArgs,omitempty"`
	StringArgs map[string]string `json:"stringArgs,omitempty"`
}

// Doubles are numbers by name. Unlike JSON's own they may be NaN or infinite, which are written as the strings "NaN",
// "Infinity" and "-Infinity", as protobuf's JSON does.
type Doubles = strictjson.Doubles

// Criterion is a range that a statistic of another ticket must be in, both ends included.
type Criterion struct {
	Name     string  `json:"name"`
	MinValue float64 `json:"minValue"`
	MaxValue float64 `json:"maxValue"`
}

// Statistic is a value of a ticket that criteria and weights look at.
type Statistic struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Ticket is a player's, or a party's, wish for a match. Who has one doesn't write to it.
type Ticket struct {
	ID    string
	Queue string
	Spec
	CreateTime time.Time     // storage's time, to the microsecond
	Expires    time.Time     // storage's time, to the millisecond, unless a heartbeat renews it
	TTL        time.Duration // from CreateTime, or from the last heartbeat where the queue has one
	Life       time.Duration // from CreateTime at most, however often it is renewed
	Epoch      ulid.ULID     // of the life of its channel that it began; zero: its ID is never used again
	Status     Status
	MatchID    string      // of MatchFound
	Assignment *Assignment // of MatchFound
}
