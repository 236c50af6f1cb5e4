package wire

import (
	"encoding/json"
	"strconv"
)

// OldPublished is the answer to a publish in the predecessor's API.
type OldPublished struct {
	ChannelID string `json:"channelID"`
	MessageID string `json:"messageID"`
}

// AppendJSON appends the JSON of p. Both members must be names, which need no escapes.
func (p *OldPublished) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"channelID":"`...)
	dst = append(dst, p.ChannelID...)
	dst = append(dst, `","messageID":"`...)
	dst = append(dst, p.MessageID...)
	return append(dst, `"}`...)
}

// OldSubscription is the answer to a subscribe and an unsubscribe in the predecessor's API.
type OldSubscription struct {
	ChannelID    string `json:"channelID"`
	SubscriberID string `json:"subscriberID"`
}

// OldMessage is a message in the predecessor's API.
type OldMessage struct {
	MessageID   string          `json:"messageID"`
	ContentType string          `json:"contentType,omitempty"` // of one that isn't JSON; the predecessor has none
	Content     json.RawMessage `json:"content"`               // byte for byte, or base64, as that of a client.Message
}

// OldDelivery is the answer to a poll in the predecessor's API.
type OldDelivery struct {
	ChannelID    string       `json:"channelID"`
	Messages     []OldMessage `json:"messages"`
	AckHandle    string       `json:"ackHandle,omitempty"` // a receipt handle
	MoreMessages bool         `json:"moreMessages"`
}

// AppendJSON appends the JSON of d, with the contents unchanged. Channel and IDs must be names and the handle
// base64url, which need no escapes.
func (d *OldDelivery) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"channelID":"`...)
	dst = append(dst, d.ChannelID...)
	dst = append(dst, `","messages":[`...)
	for i := range d.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"messageID":"`...)
		dst = append(dst, d.Messages[i].MessageID...)
		if of := d.Messages[i].ContentType; of != "" {
			dst = append(append(dst, `","contentType":"`...), of...)
		}
		dst = append(dst, `","content":`...)
		dst = append(dst, d.Messages[i].Content...)
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if d.AckHandle != "" {
		dst = append(dst, `,"ackHandle":"`...)
		dst = append(dst, d.AckHandle...)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"moreMessages":`...)
	dst = strconv.AppendBool(dst, d.MoreMessages)
	return append(dst, '}')
}

// OldError is an error in the predecessor's API.
type OldError struct {
	Error string `json:"error"`
	Code  string `json:"code,omitempty"` // one of the OldCode constants
}

// Codes of the predecessor's API.
const (
	OldCodeRejected       = "dsps.auth.rejected"
	OldCodeAckHandle      = "dsps.storage.ack-handle-malformed"
	OldCodeNoSubscriber   = "dsps.storage.subscription-not-found"
	OldCodeInvalidChannel = "dsps.storage.invalid-channel"
)

// OldProbe is the answer to probes in the predecessor's API.
type OldProbe struct {
	Storage struct{} `json:"storage"`
}
