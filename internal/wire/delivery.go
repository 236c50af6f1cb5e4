package wire

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/tidemark-dev/tidemark/channel"
)

// AppendDelivery appends the JSON of a delivery, a client.Delivery, with the contents unchanged. The IDs must be names
// and the receipt base64url, which need no escapes.
func AppendDelivery(dst []byte, d *channel.Delivery) []byte {
	return appendDeliveryMembers(append(dst, '{'), d)
}

func appendDeliveryMembers(dst []byte, d *channel.Delivery) []byte {
	dst = append(dst, `"messages":[`...)
	for i := range d.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendMessage(dst, &d.Messages[i])
	}
	dst = append(dst, ']')
	if d.Receipt != "" {
		dst = append(dst, `,"receiptHandle":"`...)
		dst = append(dst, d.Receipt...)
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
	if d.Closed {
		dst = append(dst, `,"closed":true`...)
	}
	return append(dst, '}')
}

// AppendMessage appends the JSON of a message, a client.Message, with the content unchanged, or, if it isn't JSON, its
// base64. Content types need no escapes.
func AppendMessage(dst []byte, m *channel.Message) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, m.ID...)
	dst = append(dst, `","clock":`...)
	dst = strconv.AppendInt(dst, int64(m.Clock), 10)
	if m.ContentType != "" {
		dst = append(dst, `,"contentType":"`...)
		dst = append(append(dst, m.ContentType...), '"')
	}
	dst = appendContent(append(dst, `,"content":`...), m.ContentType, m.Content)
	if !m.PublishedAt.IsZero() {
		dst = append(dst, `,"publishedAt":"`...)
		dst = m.PublishedAt.UTC().AppendFormat(dst, timeLayout)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// appendContent appends the content of a message, or a string with its base64 if it isn't JSON.
func appendContent(dst []byte, contentType string, content []byte) []byte {
	if contentType == "" {
		return append(dst, content...)
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), content), '"')
}

// ContentJSON returns the content of a message as AppendMessage appends it.
func ContentJSON(m *channel.Message) json.RawMessage {
	if m.ContentType == "" {
		return m.Content
	}
	return appendContent(nil, m.ContentType, m.Content)
}

// ContentSize returns how many bytes the content of a message has in JSON, and its type if it has one.
func ContentSize(m *channel.Message) int {
	if m.ContentType == "" {
		return len(m.Content)
	}
	return base64.StdEncoding.EncodedLen(len(m.Content)) + len(`,"contentType":"""""`) + len(m.ContentType)
}

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// DeliverySize estimates how many bytes AppendDelivery appends, a little more rather than less.
func DeliverySize(d *channel.Delivery) int {
	const frame = 160
	return frame + len(d.Receipt) + messagesSize(d.Messages)
}

func messagesSize(messages []channel.Message) (size int) {
	const perMessage = 96
	for i := range messages {
		size += perMessage + len(messages[i].ID) + ContentSize(&messages[i])
	}
	return size
}
