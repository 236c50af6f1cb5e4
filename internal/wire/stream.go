package wire

import (
	"strconv"

	"github.com/tidemark-dev/tidemark/client"
)

// MediaEvents is the media type of streams of server-sent events.
const MediaEvents = "text/event-stream"

// StreamMessage is the data of the event "message" of a stream.
type StreamMessage struct {
	StreamSource

	ReceiptHandle string `json:"receiptHandle,omitempty"` // of streams from many channels; else it is the event's ID
	client.Message
}

// StreamSource is the source of an event, in streams from many channels. It is left out if there is one source. A tail
// has no subscriber.
type StreamSource struct {
	Channel    string `json:"channel,omitempty"`
	Subscriber string `json:"subscriber,omitempty"`
}

// StreamGap is the data of the event "gap": messages that the stream doesn't have.
type StreamGap struct {
	StreamSource

	Reason        string `json:"reason"`
	Count         uint64 `json:"count"`                   // 0: it isn't known
	ReceiptHandle string `json:"receiptHandle,omitempty"` // of streams from many channels, if no message follows
}

// StreamEnd is the data of the event "end", the last of a stream.
type StreamEnd struct {
	Reason string `json:"reason"`
}

// AppendJSON appends the JSON of m, with the content unchanged. The names, IDs and the receipt handle need no escapes.
func (m *StreamMessage) AppendJSON(dst []byte) []byte {
	if m.Channel == "" {
		return appendMessage(dst, &m.Message)
	}
	dst = m.appendHead(dst)
	start := len(dst)
	dst = appendMessage(dst, &m.Message)
	return append(dst[:start], dst[start+1:]...) // without the brace
}

// AppendWith is AppendJSON with the JSON of the message, which was made before.
func (m *StreamMessage) AppendWith(dst, message []byte) []byte {
	if m.Channel == "" {
		return append(dst, message...)
	}
	return append(m.appendHead(dst), message[1:]...)
}

// appendHead appends the JSON up to the members of the message.
func (m *StreamMessage) appendHead(dst []byte) []byte {
	dst = append(m.appendMembers(append(dst, '{')), ',')
	if m.ReceiptHandle == "" {
		return dst
	}
	dst = append(append(dst, `"receiptHandle":"`...), m.ReceiptHandle...)
	return append(dst, `",`...)
}

// AppendJSON appends the JSON of g.
func (g *StreamGap) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	if g.Channel != "" {
		dst = append(g.appendMembers(dst), ',')
	}
	dst = append(dst, `"reason":"`...)
	dst = append(dst, g.Reason...)
	dst = append(dst, `","count":`...)
	dst = strconv.AppendUint(dst, g.Count, 10)
	if g.ReceiptHandle != "" {
		dst = append(dst, `,"receiptHandle":"`...)
		dst = append(append(dst, g.ReceiptHandle...), '"')
	}
	return append(dst, '}')
}

func (s *StreamSource) appendMembers(dst []byte) []byte {
	dst = append(dst, `"channel":"`...)
	dst = append(dst, s.Channel...)
	if s.Subscriber != "" {
		dst = append(dst, `","subscriber":"`...)
		dst = append(dst, s.Subscriber...)
	}
	return append(dst, '"')
}
