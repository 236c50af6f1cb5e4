package wire

import (
	"strconv"

	"github.com/tidemark-dev/tidemark/client"
)

// AppendDelivery appends the JSON of a delivery, with the contents unchanged. The IDs must be names and the receipt
// handle base64url, which need no escapes.
func AppendDelivery(dst []byte, d *client.Delivery) []byte {
	return appendDeliveryMembers(append(dst, '{'), d)
}

func appendDeliveryMembers(dst []byte, d *client.Delivery) []byte {
	dst = append(dst, `"messages":[`...)
	for i := range d.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendMessage(dst, &d.Messages[i])
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

func appendMessage(dst []byte, m *client.Message) []byte {
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
func DeliverySize(d *client.Delivery) int {
	const frame, perMessage = 96, 96
	size := frame + len(d.ReceiptHandle)
	for i := range d.Messages {
		size += perMessage + len(d.Messages[i].ID) + len(d.Messages[i].Content)
	}
	return size
}
