package wire

import "strconv"

// MediaEvents is the media type of streams of server-sent events.
const MediaEvents = "text/event-stream"

// StreamHead is what precedes a message in the data of an event "message": nothing, in streams from one channel.
type StreamHead struct {
	StreamSource

	ReceiptHandle string // empty in a tail, which acknowledges nothing
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

// StreamClosed is the data of the event "closed" of streams from many channels: the channel is closed, and nothing
// follows from the source.
type StreamClosed struct {
	StreamSource

	ReceiptHandle string `json:"receiptHandle,omitempty"` // empty in a tail
}

// StreamEnd is the data of the event "end", the last of a stream.
type StreamEnd struct {
	Reason string `json:"reason"`
}

// AppendWith appends the JSON of an object with the members of h and those of message, JSON of AppendMessage. The names
// and the receipt handle need no escapes.
func (h *StreamHead) AppendWith(dst, message []byte) []byte {
	if h.Channel == "" {
		return append(dst, message...)
	}
	return append(h.appendHead(dst), message[1:]...)
}

// appendHead appends the JSON up to the members of the message.
func (h *StreamHead) appendHead(dst []byte) []byte {
	dst = append(h.appendMembers(append(dst, '{')), ',')
	if h.ReceiptHandle == "" {
		return dst
	}
	dst = append(append(dst, `"receiptHandle":"`...), h.ReceiptHandle...)
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

// AppendJSON appends the JSON of c.
func (c *StreamClosed) AppendJSON(dst []byte) []byte {
	dst = c.appendMembers(append(dst, '{'))
	if c.ReceiptHandle != "" {
		dst = append(dst, `,"receiptHandle":"`...)
		dst = append(append(dst, c.ReceiptHandle...), '"')
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
