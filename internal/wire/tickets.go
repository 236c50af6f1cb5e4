package wire

import (
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// NewTicket is the body that creates a ticket.
type NewTicket struct {
	Queue string `json:"queue,omitempty"` // empty: the queue "default"
	ID    string `json:"id,omitempty"`    // empty: the server makes one
	TTL   TTL    `json:"ttl,omitempty"`   // how long it can be matched; 0: the queue's
	matchmaking.Spec
}

// Ticket describes a ticket.
type Ticket struct {
	client.CreatedTicket
	ExpireTime time.Time `json:"expireTime"` // Redis time, after which it can't be matched; a heartbeat moves it
	TTLMillis  int64     `json:"ttlMs"`      // from its creation, or from its last heartbeat if the queue asks for them
	LifeMillis int64     `json:"lifeMs"`     // from its creation, whatever its heartbeats
	matchmaking.Spec
	MatchID    string                  `json:"matchId,omitempty"`    // of MATCH_FOUND
	Assignment *matchmaking.Assignment `json:"assignment,omitempty"` // of MATCH_FOUND
}

// AppendCreatedTicket appends the JSON of t. Its strings must be names, which need no escapes.
func AppendCreatedTicket(dst []byte, t *client.CreatedTicket) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, t.ID...)
	dst = append(dst, `","queue":"`...)
	dst = append(dst, t.Queue...)
	dst = append(dst, `","status":"`...)
	dst = append(dst, t.Status...)
	dst = append(dst, `","createTime":"`...)
	dst = t.CreateTime.AppendFormat(dst, time.RFC3339Nano)
	if t.Channel != "" {
		dst = append(dst, `","channel":"`...)
		dst = append(dst, t.Channel...)
		dst = append(dst, `","subscriber":"`...)
		dst = append(dst, t.Subscriber...)
		dst = append(dst, `","channelUrl":"`...)
		dst = append(dst, t.ChannelURL...)
		dst = append(dst, `","messagesUrl":"`...)
		dst = append(dst, t.MessagesURL...)
	}
	if t.Token != "" {
		dst = append(dst, `","token":"`...)
		dst = append(dst, t.Token...)
	}
	return append(dst, `"}`...)
}

// TTL is how long a ticket can be matched. In JSON it is a Go duration such as "5m".
type TTL time.Duration

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
