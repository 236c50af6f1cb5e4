package wire

import (
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
	return append(dst, '}')
}

// AppendMessage appends the JSON of a message, a client.Message, with the content unchanged.
func AppendMessage(dst []byte, m *channel.Message) []byte {
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

// DeliverySize estimates how many bytes AppendDelivery appends, a little more rather than less.
func DeliverySize(d *channel.Delivery) int {
	const frame = 160
	return frame + len(d.Receipt) + messagesSize(d.Messages)
}

func messagesSize(messages []channel.Message) (size int) {
	const perMessage = 96
	for i := range messages {
		size += perMessage + len(messages[i].ID) + len(messages[i].Content)
	}
	return size
}
