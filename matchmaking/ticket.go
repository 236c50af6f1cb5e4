package matchmaking

import (
	"cmp"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// Subscriber is the subscriber of each ticket's channel.
const Subscriber = "player"

// ChannelPrefix is the prefix of the names of tickets' channels. The ticket's ID follows.
const ChannelPrefix = "ticket."

// MessagePrefix is the prefix of the message IDs of assignments. The match's ID follows.
const MessagePrefix = "assignment-"

// ChannelOf returns the name of a ticket's channel.
func ChannelOf(ticketID string) string { return ChannelPrefix + ticketID }

// Status is the state of a ticket.
type Status string

// The statuses of tickets.
const (
	Searching  Status = "SEARCHING"   // it waits and can be claimed
	Pending    Status = "PENDING"     // a director's claim holds it until a deadline
	MatchFound Status = "MATCH_FOUND" // it is assigned
	Cancelled  Status = "CANCELLED"   // its player cancelled it
	Expired    Status = "EXPIRED"     // its life ended before it was matched
)

// Spec is what a ticket asks for, and for whom. It never changes; treat what it refers to as read-only.
type Spec struct {
	SearchFields SearchFields
	// Criteria are the tickets that this one accepts, by their statistics: for each name, one of the criteria with that
	// name must hold.
	Criteria   []Criterion
	Statistics []Statistic
	NumTeams   int // of the match; 0: the queue's
	TeamSize   int // in players, of the match; 0: the queue's
	Players    int // how many players the ticket stands for: a party; 0: one
	// Message is what the ticket's creator sent, extensions included, which decides when it is stored and read. It is
	// opaque here: package openmatch/convert encodes and decodes it. Empty: there is nothing but the other fields.
	Message []byte
	// Owner is the subject of the user that created the ticket; empty: it wasn't a user, or the service is open. Only
	// its owner reaches the ticket, and callers that may reach those of others.
	Owner string
}

// MaxOwnerBytes is the longest Spec.Owner.
const MaxOwnerBytes = 256

// Party returns how many players a ticket stands for.
func (s *Spec) Party() int { return max(s.Players, 1) }

// Keep removes what isn't among these fields, FieldsMatching or more, from a spec that nobody else uses.
func (s *Spec) Keep(f Fields) {
	if f < FieldsAll {
		s.Message, s.Owner = nil, ""
	}
	if f < FieldsSearch {
		s.SearchFields = SearchFields{}
	}
}

// SearchFields are the fields that a pool's filters test.
type SearchFields struct {
	Tags       []string          `json:"tags,omitempty"`
	DoubleArgs Doubles           `json:"doubleArgs,omitempty"`
	StringArgs map[string]string `json:"stringArgs,omitempty"`
}

// Doubles are numbers by name. Unlike JSON's own they may be NaN or infinite, which are written as the strings "NaN",
// "Infinity" and "-Infinity", as protobuf's JSON does.
type Doubles = strictjson.Doubles

// Criterion is a range of a statistic of other tickets, both ends included.
type Criterion struct {
	Name     string  `json:"name"`
	MinValue float64 `json:"minValue"`
	MaxValue float64 `json:"maxValue"`
}

// Statistic is a value of a ticket for criteria and weights.
type Statistic struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// CompareAge orders tickets by creation time, the oldest first, then by ID.
func CompareAge(a, b *Ticket) int {
	return cmp.Or(a.CreateTime.Compare(b.CreateTime), cmp.Compare(a.ID, b.ID))
}

// Ticket is a request to be matched; treat it as read-only.
type Ticket struct {
	ID    string
	Queue string
	Spec
	CreateTime time.Time     // of the storage's clock, in microseconds
	Expires    time.Time     // of the storage's clock, in milliseconds, unless a heartbeat renews it
	TTL        time.Duration // from CreateTime, or from the last heartbeat if the queue has one
	Life       time.Duration // from CreateTime at most, however often it is renewed
	Epoch      ulid.ULID     // of the life that it began of its channel; zero: its ID is never used again
	Status     Status
	MatchID    string      // of MatchFound
	Assignment *Assignment // of MatchFound
	// Token is what lets the ticket's player reach this ticket, and nothing else; empty: the caller of Create gets
	// none, or the ticket was read.
	Token string
}
