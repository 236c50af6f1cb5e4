package matchmaking

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// Subscriber is the subscriber of each ticket's channel.
const Subscriber = "player"

// ChannelPrefix is the prefix of the names of tickets' channels, followed by the ticket's ID.
const ChannelPrefix = "ticket."

// MessagePrefix is the prefix of the message IDs of assignments, followed by the match's ID.
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
	Expired    Status = "EXPIRED"     // it expired before it was matched
)

// Spec is the content of a request to be matched. It never changes; treat referenced values as read-only. As JSON it is
// part of the bodies of the HTTP API, match functions and assigners.
type Spec struct {
	SearchFields SearchFields `json:"searchFields,omitzero"`
	// Criteria select the tickets that this one accepts, by their statistics: for each name, one of the criteria with
	// that name must hold.
	Criteria   []Criterion `json:"criteria,omitempty"`
	Statistics []Statistic `json:"statistics,omitempty"` // for the criteria of other tickets
	NumTeams   int         `json:"numTeams,omitempty"`   // of the match; 0: the queue's
	TeamSize   int         `json:"teamSize,omitempty"`   // in players, of the match; 0: the queue's
	Players    int         `json:"players,omitempty"`    // number of players of the ticket: a party; 0: one
	// Extensions and PersistentField are the caller's own JSON values, by name; a protobuf Any is an object with
	// "@type". They are empty if the ticket has Sent, which contains them.
	Extensions      map[string]json.RawMessage `json:"extensions,omitempty"`
	PersistentField map[string]json.RawMessage `json:"persistentField,omitempty"`
	// Sent is the message of a ticket created through Open Match's API, for package internal/openmatch/convert. It is
	// opaque here. Empty: the ticket was created otherwise.
	Sent []byte `json:"-"`
	// Trace names the trace in which the ticket was created, as the header traceparent does. Empty: it wasn't traced.
	Trace string `json:"-"`
}

// Party returns the number of players of a ticket.
func (s *Spec) Party() int { return max(s.Players, 1) }

// SearchFields are the fields that a pool's filters test.
type SearchFields struct {
	Tags       []string          `json:"tags,omitempty"`
	DoubleArgs Doubles           `json:"doubleArgs,omitempty"`
	StringArgs map[string]string `json:"stringArgs,omitempty"`
}

// Statistics returns the finite numbers as statistics, ordered by name: the statistics of a ticket from Open Match's
// API without an extension for them.
func (f *SearchFields) Statistics() []Statistic {
	var statistics []Statistic
	for name, value := range f.DoubleArgs {
		if name != "" && !math.IsNaN(value) && !math.IsInf(value, 0) {
			statistics = append(statistics, Statistic{Name: name, Value: value})
		}
	}
	slices.SortFunc(statistics, func(a, b Statistic) int { return strings.Compare(a.Name, b.Name) })
	return statistics
}

// Doubles are numbers by name. Unlike JSON numbers they may be NaN or infinite, which are encoded as the strings "NaN",
// "Infinity" and "-Infinity", as in protobuf's JSON mapping.
type Doubles = strictjson.Doubles

// Criterion is a range of a statistic of other tickets, both ends included.
type Criterion struct {
	Name     string  `json:"name"`
	MinValue float64 `json:"minValue"`
	MaxValue float64 `json:"maxValue"`
}

// Statistic is a value of a ticket, used by criteria and weights.
type Statistic struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// MaxOwnerBytes is the longest Ticket.Owner.
const MaxOwnerBytes = 256

// The lengths of the lists of a ticket, at most. The director keeps both in memory while the ticket waits, and compares
// the criteria with the statistics of other tickets.
const (
	MaxCriteria   = 100
	MaxStatistics = 1000
)

// CompareAge orders tickets by creation time, the oldest first, then by ID.
func CompareAge(a, b *Ticket) int {
	return cmp.Or(a.CreateTime.Compare(b.CreateTime), cmp.Compare(a.ID, b.ID))
}

// Ticket is a request to be matched; treat it as read-only.
type Ticket struct {
	ID    string
	Queue string
	Spec
	// Owner is the subject of the user that created the ticket; empty: it wasn't created by a user, or the service is
	// open. Only the owner, and callers with access to other users' tickets, can access the ticket.
	Owner      string
	CreateTime time.Time     // of the storage's clock, in microseconds
	Expires    time.Time     // of the storage's clock, in milliseconds; a heartbeat extends it
	TTL        time.Duration // from CreateTime, or from the last heartbeat if the queue has one
	Life       time.Duration // from CreateTime: the maximum, including renewals
	Epoch      ulid.ULID     // of the channel life that it began; zero: its ID is never reused
	NoChannel  bool          // its assignment is not published on a channel
	// Deindexed is set for a cancelled ticket that was taken out of its queue by Deindex, until its life ends, or
	// sooner. Clients of Open Match can read it as one that isn't assigned.
	Deindexed  bool
	Status     Status
	MatchID    string      // of MatchFound
	Assignment *Assignment // of MatchFound
}

// KeepOnly removes all fields except the given ones, FieldsMatching or more, from a ticket that has no other user.
func (t *Ticket) KeepOnly(f Fields) {
	if f < FieldsAll {
		t.Extensions, t.PersistentField, t.Sent, t.Owner = nil, nil, nil, ""
	}
	if f < FieldsSearch {
		t.SearchFields = SearchFields{}
	}
}
