package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// NewTicket is the body that makes a ticket.
type NewTicket struct {
	Queue string `json:"queue,omitempty"` // empty: the queue "default"
	ID    string `json:"id,omitempty"`    // empty: the server makes one
	TicketSpec
	TTL TTL `json:"ttl,omitempty"` // how long it can be matched at most; 0: as the queue has it
}

// TicketSpec is what a player asks for.
type TicketSpec struct {
	SearchFields SearchFields `json:"searchFields,omitzero"`
	Criteria     []Criterion  `json:"criteria,omitempty"`   // which other tickets this one accepts, by their statistics
	Statistics   []Statistic  `json:"statistics,omitempty"` // what criteria of others look at
	NumTeams     int          `json:"numTeams,omitempty"`   // of the match that is wanted; 0: the queue's
	TeamSize     int          `json:"teamSize,omitempty"`   // of the match that is wanted; 0: the queue's
	// Extensions and PersistentField are the caller's own: JSON by name.
	Extensions      map[string]json.RawMessage `json:"extensions,omitempty"`
	PersistentField map[string]json.RawMessage `json:"persistentField,omitempty"`
}

// Doubles are numbers by name, of which one may be NaN or infinite.
type Doubles = strictjson.Doubles

// SearchFields are what a queue's pools look at.
type SearchFields struct {
	Tags       []string          `json:"tags,omitempty"`
	DoubleArgs Doubles           `json:"doubleArgs,omitempty"`
	StringArgs map[string]string `json:"stringArgs,omitempty"`
}

// Criterion is a range that a statistic of another ticket must be in, both ends included.
type Criterion struct {
	Name     string  `json:"name"`
	MinValue float64 `json:"minValue"`
	MaxValue float64 `json:"maxValue"`
}

// Statistic is a value of a ticket.
type Statistic struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// CreatedTicket answers the creation of a ticket.
type CreatedTicket struct {
	ID          string    `json:"id"`
	Queue       string    `json:"queue"`
	Status      string    `json:"status"`      // one of the Ticket… constants; TicketSearching, unless it was there already
	CreateTime  time.Time `json:"createTime"`  // Redis time, to the microsecond
	Channel     string    `json:"channel"`     // where the assignment comes
	Subscriber  string    `json:"subscriber"`  // of the channel, made with it
	ChannelURL  string    `json:"channelUrl"`  // path that tells of the channel
	MessagesURL string    `json:"messagesUrl"` // path to fetch the assignment at
}

// How a ticket's channel, the subscriber on it, and the message with its assignment are called.
const (
	TicketChannelPrefix     = "ticket." // the ticket's ID follows
	TicketSubscriber        = "player"
	AssignmentMessagePrefix = "assignment-" // the match's ID follows
)

// Statuses of tickets.
const (
	TicketSearching  = "SEARCHING"   // it can be matched
	TicketPending    = "PENDING"     // it is about to be matched
	TicketMatchFound = "MATCH_FOUND" // it has its assignment
	TicketCancelled  = "CANCELLED"   // its player gave it up
	TicketExpired    = "EXPIRED"     // its life ended before there was a match
)

// Ticket tells of a ticket.
type Ticket struct {
	CreatedTicket
	ExpireTime time.Time `json:"expireTime"` // Redis time, when it stops being matchable; a heartbeat moves it
	TTLMillis  int64     `json:"ttlMs"`      // from its creation, or from its last sign of life where the queue has a heartbeat
	LifeMillis int64     `json:"lifeMs"`     // from its creation at most, whatever the signs of life
	TicketSpec
	MatchID    string      `json:"matchId,omitempty"`    // of TicketMatchFound
	Assignment *Assignment `json:"assignment,omitempty"` // of TicketMatchFound
}

// Assignment is what a player gets: where to play, and with whom. It is the content of the message on the ticket's
// channel.
type Assignment struct {
	TicketID   string                     `json:"ticketId"`
	MatchID    string                     `json:"matchId"`
	Queue      string                     `json:"queue"`
	Connection string                     `json:"connection"`
	Team       int                        `json:"team"`                // counted from 0
	Teammates  []string                   `json:"teammates,omitempty"` // tickets of the same team, where the queue tells them
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

// AppendJSON appends the JSON of t. Its texts must be names, which need no escapes.
func (t *CreatedTicket) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, t.ID...)
	dst = append(dst, `","queue":"`...)
	dst = append(dst, t.Queue...)
	dst = append(dst, `","status":"`...)
	dst = append(dst, t.Status...)
	dst = append(dst, `","createTime":"`...)
	dst = t.CreateTime.AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","channel":"`...)
	dst = append(dst, t.Channel...)
	dst = append(dst, `","subscriber":"`...)
	dst = append(dst, t.Subscriber...)
	dst = append(dst, `","channelUrl":"`...)
	dst = append(dst, t.ChannelURL...)
	dst = append(dst, `","messagesUrl":"`...)
	dst = append(dst, t.MessagesURL...)
	return append(dst, `"}`...)
}

// TTL is how long a ticket can be matched. In JSON it is a Go duration, as in "5m".
type TTL time.Duration

// MarshalText gives the Go duration.
func (t TTL) MarshalText() ([]byte, error) { return []byte(time.Duration(t).String()), nil }

// UnmarshalText reads what ParseTTL reads.
func (t *TTL) UnmarshalText(text []byte) error {
	d, err := ParseTTL(string(text))
	if err != nil {
		return err
	}
	*t = TTL(d)
	return nil
}

// ParseTTL reads a Go duration that is positive, as in "5m" and "1m30s". The error is an *InputError with
// fault.SlugInvalidTicket.
func ParseTTL(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, &InputError{
			Slug: fault.SlugInvalidTicket, Field: "/ttl", Offset: -1,
			Detail: fmt.Sprintf("ttl is %.64q, it must be a duration, as in 5m or 1m30s", text),
		}
	}
	return d, nil
}
