package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// NewTicket is the body that creates a ticket.
type NewTicket struct {
	Queue string `json:"queue,omitempty"` // empty: the queue "default"
	ID    string `json:"id,omitempty"`    // empty: the server makes one
	TicketSpec
	TTL TTL `json:"ttl,omitempty"` // how long it can be matched; 0: the queue's
}

// TicketSpec is the request of a player.
type TicketSpec struct {
	SearchFields SearchFields `json:"searchFields,omitzero"`
	Criteria     []Criterion  `json:"criteria,omitempty"`   // which other tickets are accepted, by their statistics
	Statistics   []Statistic  `json:"statistics,omitempty"` // for the criteria of other tickets
	NumTeams     int          `json:"numTeams,omitempty"`   // in the match; 0: the queue's
	TeamSize     int          `json:"teamSize,omitempty"`   // in the match, in players; 0: the queue's
	Players      int          `json:"players,omitempty"`    // how many players the ticket stands for; 0: one
	// Extensions and PersistentField are JSON values of the caller's own, by name.
	Extensions      map[string]json.RawMessage `json:"extensions,omitempty"`
	PersistentField map[string]json.RawMessage `json:"persistentField,omitempty"`
}

// Doubles are numbers by name, which may be NaN or infinite.
type Doubles = strictjson.Doubles

// SearchFields are the values that the filters of a queue's pools look at.
type SearchFields struct {
	Tags       []string          `json:"tags,omitempty"`
	DoubleArgs Doubles           `json:"doubleArgs,omitempty"`
	StringArgs map[string]string `json:"stringArgs,omitempty"`
}

// Criterion is a range, with both ends, for a statistic of other tickets.
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

// CreatedTicket is the answer to the creation of a ticket.
type CreatedTicket struct {
	ID          string    `json:"id"`
	Queue       string    `json:"queue"`
	Status      string    `json:"status"`      // one of the Ticket… constants; TicketSearching, unless the ticket existed
	CreateTime  time.Time `json:"createTime"`  // Redis time, to the microsecond
	Channel     string    `json:"channel"`     // on which the assignment is published
	Subscriber  string    `json:"subscriber"`  // of the channel, created with it
	ChannelURL  string    `json:"channelUrl"`  // path of the channel's description
	MessagesURL string    `json:"messagesUrl"` // path to fetch the assignment from
	// Token is a credential for the ticket's player: it reads and cancels this ticket, and fetches its assignment, and
	// nothing else. Empty: the service is open, or the ticket is the user's own.
	Token string `json:"token,omitempty"`
}

// Names of a ticket's channel, of the subscriber on it, and of the message with the assignment.
const (
	TicketChannelPrefix     = "ticket." // the ticket's ID follows
	TicketSubscriber        = "player"
	AssignmentMessagePrefix = "assignment-" // the match's ID follows
)

// Statuses of tickets.
const (
	TicketSearching  = "SEARCHING"   // can be matched
	TicketPending    = "PENDING"     // is being matched
	TicketMatchFound = "MATCH_FOUND" // has its assignment
	TicketCancelled  = "CANCELLED"   // was cancelled by its player
	TicketExpired    = "EXPIRED"     // expired before there was a match
)

// Ticket describes a ticket.
type Ticket struct {
	CreatedTicket
	ExpireTime time.Time `json:"expireTime"` // Redis time, after which it can't be matched; a heartbeat moves it
	TTLMillis  int64     `json:"ttlMs"`      // from its creation, or from its last heartbeat if the queue asks for them
	LifeMillis int64     `json:"lifeMs"`     // from its creation, whatever its heartbeats
	TicketSpec
	MatchID    string      `json:"matchId,omitempty"`    // of TicketMatchFound
	Assignment *Assignment `json:"assignment,omitempty"` // of TicketMatchFound
}

// Assignment says where a player plays, and with whom. It is the content of the message on the ticket's channel.
type Assignment struct {
	TicketID   string                     `json:"ticketId"`
	MatchID    string                     `json:"matchId"`
	Queue      string                     `json:"queue"`
	Connection string                     `json:"connection"`
	Team       int                        `json:"team"`                // counted from 0
	Teammates  []string                   `json:"teammates,omitempty"` // other tickets of the team, if the queue reveals them
	Opponents  []string                   `json:"opponents,omitempty"` // tickets of the other teams, if the queue reveals them
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

// Match is a match that was assigned.
type Match struct {
	ID         string                     `json:"id"`
	Queue      string                     `json:"queue"`
	AssignTime time.Time                  `json:"assignTime"` // Redis time, to the microsecond
	Connection string                     `json:"connection"`
	Teams      [][]MatchedTicket          `json:"teams"`                // in order, which assignments count from 0
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"` // as in its assignments
}

// MatchedTicket is a ticket of a match.
type MatchedTicket struct {
	ID      string `json:"id"`
	Players int    `json:"players"` // how many players it stands for
}

// AppendJSON appends the JSON of t. Its strings must be names, which need no escapes.
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
	if t.Token != "" {
		dst = append(dst, `","token":"`...)
		dst = append(dst, t.Token...)
	}
	return append(dst, `"}`...)
}

// TTL is how long a ticket can be matched. In JSON it is a Go duration such as "5m".
type TTL time.Duration

// MarshalText returns the Go duration.
func (t TTL) MarshalText() ([]byte, error) { return []byte(time.Duration(t).String()), nil }

// UnmarshalText accepts what ParseTTL accepts.
func (t *TTL) UnmarshalText(text []byte) error {
	d, err := ParseTTL(string(text))
	if err != nil {
		return err
	}
	*t = TTL(d)
	return nil
}

// ParseTTL parses a positive Go duration, such as "5m" and "1m30s". The error is an *InputError with
// fault.SlugInvalidTicket.
func ParseTTL(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, &InputError{
			Slug: fault.SlugInvalidTicket, Field: "/ttl", Offset: -1,
			Detail: fmt.Sprintf("ttl must be a positive duration, such as 5m or 1m30s, not %.64q", text),
		}
	}
	return d, nil
}
