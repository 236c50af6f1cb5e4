package wire

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// ChannelList is a page of the list of channels.
type ChannelList struct {
	Channels []client.ListedChannel `json:"channels"`         // by name; a page can be empty
	Cursor   string                 `json:"cursor,omitempty"` // of the next page; left out on the last
}

// AppendPeeked appends the JSON of the answer to a peek, a client.Peeked, with the contents unchanged.
func AppendPeeked(dst []byte, name string, p *channel.Peek) []byte {
	dst = append(append(dst, `{"channel":"`...), name...)
	dst = append(append(dst, `","epoch":"`...), p.Epoch.String()...)
	dst = strconv.AppendInt(append(dst, `","clock":`...), int64(p.Clock), 10)
	dst = append(dst, `,"messages":[`...)
	for i := range p.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendMessage(dst, &p.Messages[i])
	}
	dst = strconv.AppendInt(append(dst, `],"through":`...), int64(p.Through), 10)
	return append(strconv.AppendBool(append(dst, `,"more":`...), p.Through != p.Clock), '}')
}

// PeekedSize estimates how many bytes AppendPeeked appends, a little more rather than less.
func PeekedSize(name string, p *channel.Peek) int { return messagesSize(p.Messages) + len(name) + 256 }

// PurgeRequest is the body of a purge.
type PurgeRequest struct {
	Through From   `json:"through"`         // channel.StartLatest, or StartAt: up to a clock
	Epoch   string `json:"epoch,omitempty"` // the life of the channel; empty: the current one
}

// SeekRequest is the body of a seek.
type SeekRequest struct {
	To To `json:"to"`
}

// To is where a mark is set. In JSON it is "latest", "earliest", a clock, or a time in the form of RFC 3339.
type To struct {
	From
	Time time.Time // if it isn't zero, instead of From: before the first message that was published then or later
}

// DecodePurge decodes the body of a purge. The error is an *InputError with SlugInvalidBody or SlugInvalidPosition.
func DecodePurge(body []byte) (PurgeRequest, error) {
	var r struct {
		PurgeRequest
		Through through `json:"through"`
	}
	err := decode(body, fault.SlugInvalidBody, &r)
	if err == nil && !r.Through.there {
		err = missing("through", "")
	}
	r.PurgeRequest.Through = r.Through.From
	return r.PurgeRequest, err
}

// DecodeSeek decodes the body of a seek. The error is an *InputError with SlugInvalidBody or SlugInvalidPosition.
func DecodeSeek(body []byte) (SeekRequest, error) {
	var r struct {
		To to `json:"to"`
	}
	err := decode(body, fault.SlugInvalidBody, &r)
	if err == nil && !r.To.there {
		err = missing("to", "")
	}
	return SeekRequest{To: r.To.To}, err
}

// through is the member of a purge.
type through struct {
	From
	there bool
}

// UnmarshalJSON accepts "latest" or a clock.
func (t *through) UnmarshalJSON(data []byte) error {
	t.there = true
	if err := t.From.UnmarshalJSON(data); err != nil || t.Start == channel.StartEarliest {
		return invalidPosition("through", `"latest" or a clock`, data)
	}
	return nil
}

// to is the member of a seek.
type to struct {
	To
	there bool
}

// UnmarshalJSON accepts "latest", "earliest", a clock or a time.
func (t *to) UnmarshalJSON(data []byte) error {
	t.there = true
	err := t.From.UnmarshalJSON(data)
	if err == nil {
		return nil
	}
	var text string
	if err = strictjson.Unmarshal(data, &text); err == nil {
		t.Time, err = time.Parse(time.RFC3339, text)
	}
	if err != nil || t.Time.IsZero() {
		return invalidPosition("to", `"latest", "earliest", a time such as "2026-01-31T12:00:00Z", or a clock`, data)
	}
	return nil
}

func invalidPosition(member, forms string, data []byte) error {
	return &InputError{Slug: fault.SlugInvalidPosition, Field: "/" + member, Offset: -1,
		Detail: fmt.Sprintf("%s must be %s from %d to %d, not %.64s", member, forms, clock.Min, clock.Max, data)}
}

// ChannelPolicy is the answer to GET /v1/channels/{channel}/policy.
type ChannelPolicy struct {
	Channel         string `json:"channel"`
	Rule            string `json:"rule,omitempty"` // pattern of the rule that sets it; left out: the defaults do
	TTLMillis       int64  `json:"ttlMs"`          // of a message, and of the channel and its marks without activity
	MaxMessages     int    `json:"maxMessages"`    // 0: no limit
	MaxMessageBytes int    `json:"maxMessageBytes"`
	Replicas        int    `json:"replicas"`       // that must confirm a publish
	MaxSubscribers  int    `json:"maxSubscribers"` // 0: no limit
	Schema          bool   `json:"schema"`         // contents are validated
	Copies          bool   `json:"copies"`         // messages are copied to the channels of followers
	Plain           bool   `json:"plain"`          // messages are also published on Redis's pub/sub
}
