package wire

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/clock"
)

// Message is a message as a subscriber receives it.
type Message struct {
	ID          string          `json:"id"`
	Clock       clock.Clock     `json:"clock"`
	Content     json.RawMessage `json:"content"`              // byte for byte as it was published
	PublishedAt time.Time       `json:"publishedAt,omitzero"` // Redis time, to the millisecond; left out if it isn't known
}

// Delivery is the answer to a fetch.
type Delivery struct {
	Messages      []Message `json:"messages"`                // in clock order; empty if there is nothing new
	ReceiptHandle string    `json:"receiptHandle,omitempty"` // acknowledges all of it; left out if there is nothing to acknowledge
	More          bool      `json:"more"`                    // there is more to fetch now
	Expired       uint64    `json:"expired"`                 // number of messages that expired unread and are skipped
	Purged        uint64    `json:"purged,omitempty"`        // number of messages that an operator purged before they were read
	Damaged       uint64    `json:"damaged,omitempty"`       // number of messages that are damaged and are skipped
	// Lost is set if the channel doesn't have the history of the request's LastReceiptHandle any more.
	Lost bool `json:"lost,omitempty"`
}

// AppendJSON appends the JSON of d, with the contents unchanged. The IDs must be names and the receipt handle
// base64url, which need no escapes.
func (d *Delivery) AppendJSON(dst []byte) []byte { return d.appendMembers(append(dst, '{')) }

func (d *Delivery) appendMembers(dst []byte) []byte {
	dst = append(dst, `"messages":[`...)
	for i := range d.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = d.Messages[i].appendJSON(dst)
	}
	dst = append(dst, ']')
	if d.ReceiptHandle != "" {
		dst = append(dst, `,"receiptHandle":"`...)
		dst = append(dst, d.ReceiptHandle...)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"more":`...)
	dst = strconv.AppendBool(dst, d.More)
	dst = append(dst, `,"expired":`...)
	dst = strconv.AppendUint(dst, d.Expired, 10)
	if d.Purged > 0 {
		dst = append(dst, `,"purged":`...)
		dst = strconv.AppendUint(dst, d.Purged, 10)
	}
	if d.Damaged > 0 {
		dst = append(dst, `,"damaged":`...)
		dst = strconv.AppendUint(dst, d.Damaged, 10)
	}
	if d.Lost {
		dst = append(dst, `,"lost":true`...)
	}
	return append(dst, '}')
}

func (m *Message) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, m.ID...)
	dst = append(dst, `","clock":`...)
	dst = strconv.AppendInt(dst, int64(m.Clock), 10)
	dst = append(dst, `,"content":`...)
	dst = append(dst, m.Content...)
	if !m.PublishedAt.IsZero() {
		dst = append(dst, `,"publishedAt":"`...)
		dst = m.PublishedAt.UTC().AppendFormat(dst, timeLayout)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// JSONSize estimates how many bytes AppendJSON appends, a little more rather than less.
func (d *Delivery) JSONSize() int {
	const frame, perMessage = 96, 96
	size := frame + len(d.ReceiptHandle)
	for i := range d.Messages {
		size += perMessage + len(d.Messages[i].ID) + len(d.Messages[i].Content)
	}
	return size
}
