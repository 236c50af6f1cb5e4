package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// SocketProtocol is the subprotocol of WebSockets.
const SocketProtocol = "tidemark.v1"

// MaxRef is the largest ref of a frame.
const MaxRef = 1<<53 - 1

// The types of frames from clients. The answers to them, and what else servers send, follow.
const (
	FrameAuthenticate = "authenticate"
	FrameSubscribe    = "subscribe"
	FrameUnsubscribe  = "unsubscribe"
	FrameAck          = "ack"
	FramePublish      = "publish"
	FramePing         = "ping" // of servers, too

	FrameOK        = "ok"
	FrameAcked     = "acked"
	FramePublished = "published"
	FramePong      = "pong"
	FrameMessage   = "message"
	FrameGap       = "gap"
	FrameClosed    = "closed"
	FrameError     = "error"
	FrameEnd       = "end"
)

// ClientFrame is a frame of a WebSocket from a client. Members that its type doesn't have are empty.
type ClientFrame struct {
	Type       string
	Ref        uint64 // that the answer has; 0: an ack without an answer
	Token      string // of authenticate
	Channel    string
	Subscriber string // empty: the subscription is a tail
	From       *From  // where a tail begins; nil: the subscribe has a subscriber
	Window     int    // of subscribe; 0: the default
	Resume     string // of subscribe, as ReceiptHandle; may be empty
	// LastReceiptHandle is one that the client had before: of subscribe, without Resume; may be empty.
	LastReceiptHandle string
	ReceiptHandle     string            // of ack
	Draft             channel.Draft     // of publish
	Producer          *channel.Producer // of publish; nil: it has none
	Order             string            // of publish; may be empty
	Close             bool              // of publish
}

// frameForm is the form of a type of frames.
type frameForm struct {
	required, optional []string // members besides the type
}

// frameForms are the forms of the frames from clients.
var frameForms = map[string]frameForm{
	FrameAuthenticate: {required: []string{"ref", "token"}},
	FrameSubscribe: {required: []string{"ref", "channel", "subscriber"},
		optional: []string{"window", "resume", "lastReceiptHandle"}},
	FrameUnsubscribe: {required: []string{"ref", "channel"}, optional: []string{"subscriber"}},
	FrameAck:         {required: []string{"channel", "subscriber", "receiptHandle"}, optional: []string{"ref"}},
	FramePublish: {required: []string{"ref", "channel", "content"},
		optional: []string{"id", "contentType", "producer", "order", "close"}},
	FramePing: {required: []string{"ref"}},
}

// tailForm is the form of a subscribe without a subscriber.
var tailForm = frameForm{required: []string{"ref", "channel", "from"}, optional: []string{"resume"}}

// ClientFrames returns the types of frames from clients, in order.
func ClientFrames() []string { return slices.Sorted(maps.Keys(frameForms)) }

// clientFrame is a ClientFrame in JSON.
type clientFrame struct {
	Type          string    `json:"type"`
	Ref           ref       `json:"ref"`
	Token         string    `json:"token"`
	Channel       string    `json:"channel"`
	Subscriber    string    `json:"subscriber"`
	From          *From     `json:"from"`
	Window        window    `json:"window"`
	Resume        string    `json:"resume"`
	Last          string    `json:"lastReceiptHandle"`
	ReceiptHandle string    `json:"receiptHandle"`
	Producer      *producer `json:"producer"`
	Order         string    `json:"order"`
	Close         *bool     `json:"close"`
	draft
}

// members calls yield with the name of each member but the type, and whether it is there.
func (f *clientFrame) members(yield func(name string, there bool) bool) {
	_ = yield("ref", f.Ref != 0) && yield("token", f.Token != strictjson.Absent) &&
		yield("channel", f.Channel != strictjson.Absent) && yield("subscriber", f.Subscriber != strictjson.Absent) &&
		yield("from", f.From != nil) && yield("window", f.Window != 0) && yield("resume", f.Resume != strictjson.Absent) &&
		yield("lastReceiptHandle", f.Last != strictjson.Absent) &&
		yield("receiptHandle", f.ReceiptHandle != strictjson.Absent) && yield("id", f.ID != "") &&
		yield("contentType", f.ContentType != "") && yield("content", f.Content.end != 0) &&
		yield("producer", f.Producer != nil) && yield("order", f.Order != strictjson.Absent) &&
		yield("close", f.Close != nil)
}

// DecodeFrame decodes a frame from a client. A content that is JSON is a part of text. The error is an *InputError with
// fault.SlugInvalidBody, fault.SlugInvalidMax, fault.SlugInvalidFrom, fault.SlugInvalidMessageID, fault.SlugContentType
// or fault.SlugInvalidContent.
func DecodeFrame(text []byte) (ClientFrame, error) {
	if f, ok := quickPublish(text); ok {
		return f, nil
	}
	const absent = strictjson.Absent
	f := clientFrame{Type: absent, Token: absent, Channel: absent, Subscriber: absent, Resume: absent, Last: absent,
		ReceiptHandle: absent, Order: absent}
	if err := decode(text, fault.SlugInvalidBody, &f); err != nil {
		return ClientFrame{}, ofFrame(err)
	}
	if f.Type == absent {
		return ClientFrame{}, missing("type", "")
	}
	form, ok := frameForms[f.Type]
	if !ok {
		return ClientFrame{}, &InputError{Slug: fault.SlugInvalidBody, Field: "/type", Offset: -1,
			Detail: fmt.Sprintf("type: %.64q isn't a type of frames from clients", f.Type)}
	}
	if f.Type == FrameSubscribe && f.From != nil {
		form = tailForm
	}
	for name, there := range f.members {
		switch {
		case !there && slices.Contains(form.required, name):
			return ClientFrame{}, missing(name, "")
		case there && !slices.Contains(form.required, name) && !slices.Contains(form.optional, name):
			return ClientFrame{}, &InputError{Slug: fault.SlugInvalidBody, Field: "/" + name, Offset: -1,
				Detail: fmt.Sprintf("%s: this frame of the type %s doesn't have it", name, f.Type)}
		}
	}
	if f.Resume != absent && f.Last != absent {
		return ClientFrame{}, &InputError{Slug: fault.SlugInvalidBody, Field: "/lastReceiptHandle", Offset: -1,
			Detail: "lastReceiptHandle: a frame with resume doesn't have it"}
	}
	if f.Order == "" {
		return ClientFrame{}, &InputError{Slug: fault.SlugInvalidProducer, Field: "/order", Offset: -1,
			Detail: "order: is empty: leave it out for none"}
	}
	if f.Producer != nil {
		if member := f.Producer.missing(); member != "" {
			return ClientFrame{}, missing(member, "/producer")
		}
	}
	return f.in(text)
}

// in returns the frame with its content, as draft.in does.
func (f *clientFrame) in(text []byte) (frame ClientFrame, err error) {
	plain := func(member string) string {
		if member == strictjson.Absent {
			return ""
		}
		return member
	}
	frame = ClientFrame{
		Type: f.Type, Ref: uint64(f.Ref), Token: plain(f.Token), Channel: plain(f.Channel),
		Subscriber: plain(f.Subscriber), From: f.From, Window: int(f.Window), Resume: plain(f.Resume),
		LastReceiptHandle: plain(f.Last), ReceiptHandle: plain(f.ReceiptHandle),
		Producer: f.Producer.producer(), Order: plain(f.Order), Close: f.Close != nil && *f.Close,
	}
	frame.Draft, err = f.draft.in(text, "")
	return frame, err
}

// producer is a channel.Producer in a frame. All of its members are required.
type producer struct {
	ID       *string `json:"id"`
	Epoch    *int64  `json:"epoch"`
	Sequence *int64  `json:"sequence"`
}

// missing returns the name of a member that is missing, or "".
func (p *producer) missing() string {
	switch {
	case p.ID == nil:
		return "id"
	case p.Epoch == nil:
		return "epoch"
	case p.Sequence == nil:
		return "sequence"
	}
	return ""
}

// producer returns the producer; nil if there is none.
func (p *producer) producer() *channel.Producer {
	if p == nil {
		return nil
	}
	return &channel.Producer{ID: *p.ID, Epoch: *p.Epoch, Sequence: *p.Sequence}
}

// ofFrame changes an error about a body to one about a frame.
func ofFrame(err error) error {
	if input, ok := err.(*InputError); ok { //nolint:errorlint // decode returns it as it is
		input.Detail = strings.Replace(input.Detail, "the body ", "the frame ", 1)
	}
	return err
}

// IsJSON reports whether a frame that could not be decoded is JSON, and whether it is UTF-8.
func IsJSON(text []byte) (isJSON, isUTF8 bool) { return json.Valid(text), utf8.Valid(text) }

// RefOf returns the ref of a frame that could not be decoded, or 0 if it has none.
func RefOf(text []byte) uint64 {
	var f struct {
		Ref json.RawMessage `json:"ref"`
	}
	_ = json.Unmarshal(text, &f) // without a ref the answer has none
	n, err := strconv.ParseUint(string(f.Ref), 10, 64)
	if err != nil || n > MaxRef {
		return 0
	}
	return n
}

// ref is the ref of a frame.
type ref uint64

// UnmarshalJSON accepts an integer from 1 to MaxRef.
func (r *ref) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || n < 1 || n > MaxRef {
		return &InputError{Slug: fault.SlugInvalidBody,
			Detail: fmt.Sprintf("ref must be an integer from 1 to %d, not %.64s", uint64(MaxRef), text)}
	}
	*r = ref(n)
	return nil
}

// window is the window of a subscribe, which is left out rather than 0.
type window int

// UnmarshalJSON accepts an integer of at least 1.
func (w *window) UnmarshalJSON(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return &InputError{Slug: fault.SlugInvalidMax,
			Detail: fmt.Sprintf("window must be an integer of at least 1, not %.64s", text)}
	}
	*w = window(n)
	return nil
}

// AppendAnswer appends the frame that answers another one. A ref of 0 is left out.
func AppendAnswer(dst []byte, kind string, ref uint64) []byte {
	return append(beginFrame(dst, kind, ref), '}')
}

// AppendPublished appends the frame that answers a publish. The names of the channel and of p need no escapes.
func AppendPublished(dst []byte, ref uint64, name string, p *channel.Published) []byte {
	return appendMembers(beginFrame(dst, FramePublished, ref), func(dst []byte) []byte {
		return AppendPublishedJSON(dst, name, p)
	})
}

// AppendMessageWith appends the frame of a message, as StreamHead.AppendWith appends its event.
func AppendMessageWith(dst []byte, h *StreamHead, message []byte) []byte {
	return appendMembers(beginFrame(dst, FrameMessage, 0), func(b []byte) []byte { return h.AppendWith(b, message) })
}

// AppendGap appends the frame of a gap. The receipt handle may be empty.
func AppendGap(dst []byte, g *StreamGap, receiptHandle string) []byte {
	dst = appendMembers(beginFrame(dst, FrameGap, 0), g.AppendJSON)
	if receiptHandle == "" {
		return dst
	}
	dst = append(dst[:len(dst)-1], `,"receiptHandle":"`...)
	return append(append(dst, receiptHandle...), `"}`...)
}

// AppendClosed appends the frame of a subscription that has ended, since its channel is closed and everything is sent.
func AppendClosed(dst []byte, of *StreamSource) []byte {
	closed := StreamClosed{StreamSource: *of}
	return appendMembers(beginFrame(dst, FrameClosed, 0), closed.AppendJSON)
}

// AppendEnd appends the last frame.
func AppendEnd(dst []byte, reason string) []byte {
	dst = append(beginFrame(dst, FrameEnd, 0), `,"reason":"`...)
	return append(append(dst, reason...), `"}`...)
}

// ErrorFrame is the frame of an error: of the frame with a ref, or of a subscription, which it ends.
type ErrorFrame struct {
	Type string `json:"type"` // FrameError
	Ref  uint64 `json:"ref,omitempty"`
	StreamSource

	Problem *client.Problem `json:"problem"`
}

// AppendJSON appends the JSON of f.
func (f *ErrorFrame) AppendJSON(dst []byte) []byte {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // impossible: a problem has only strings and numbers
	}
	return append(dst, text...)
}

// beginFrame appends a frame without its last brace.
func beginFrame(dst []byte, kind string, ref uint64) []byte {
	dst = append(append(append(dst, `{"type":"`...), kind...), '"')
	if ref != 0 {
		dst = strconv.AppendUint(append(dst, `,"ref":`...), ref, 10)
	}
	return dst
}

// appendMembers appends the members of an object, which has some, and a brace to a frame.
func appendMembers(dst []byte, appendJSON func([]byte) []byte) []byte {
	start := len(dst)
	dst = appendJSON(dst)
	dst[start] = ','
	return dst
}
