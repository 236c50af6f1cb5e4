package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// The types of this file are those of members of requests that have rules of their own. If a member breaks one, the
// error is an *InputError without its place, which the decoder adds.

// part is a value of a body that is kept as it is written: its first byte, and the one after its last.
type part struct{ start, end int64 }

// UnmarshalJSONFrom reads any value.
func (p *part) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	p.end = d.InputOffset()
	p.start = p.end - int64(len(value))
	return err
}

// in returns the part of body. Appending to it doesn't change body.
func (p part) in(body []byte) []byte { return body[p.start:p.end:p.end] }

// draft is a client.Draft in a body. The end of its content is 0 if it has none.
type draft struct {
	ID          messageID   `json:"id"`
	ContentType contentType `json:"contentType"`
	Content     part        `json:"content"`
}

// in returns the draft at pointer with its content: a part of body if it is JSON, and otherwise the bytes whose base64
// it is. The error is an *InputError with fault.SlugInvalidContent.
func (d *draft) in(body []byte, pointer string) (channel.Draft, error) {
	result := channel.Draft{ID: string(d.ID), ContentType: string(d.ContentType), Content: d.Content.in(body)}
	if d.ContentType == "" {
		return result, nil
	}
	decoded, err := decodeBase64(result.Content)
	if err != nil {
		return channel.Draft{}, &InputError{Slug: fault.SlugInvalidContent, Field: pointer + "/content",
			Offset: d.Content.start, Detail: fmt.Sprintf("content: is %s, it must be a string with the base64 of the bytes, "+
				"since the message has the contentType %s", err, d.ContentType)}
	}
	result.Content = decoded
	return result, nil
}

// decodeBase64 returns the bytes whose base64 a JSON string is, in the standard alphabet with padding. The error says
// what the text is instead.
func decodeBase64(text []byte) ([]byte, error) {
	if !bytes.HasPrefix(text, []byte(`"`)) {
		return nil, errors.New("no string")
	}
	encoded, err := jsontext.AppendUnquote(nil, text)
	if err != nil || bytes.ContainsAny(encoded, "\r\n") { // the decoder skips line ends
		return nil, errors.New("no base64")
	}
	content := make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
	n, err := base64.StdEncoding.Strict().Decode(content, encoded)
	var corrupt base64.CorruptInputError
	if errors.As(err, &corrupt) {
		return nil, fmt.Errorf("no base64 at byte %d", int64(corrupt))
	}
	return content[:n], err
}

// contentType is the content type of a message, which is left out rather than empty.
type contentType string

// UnmarshalText takes a media type. The error is an *InputError with fault.SlugContentType.
func (c *contentType) UnmarshalText(text []byte) error {
	normal, err := ParseContentType(string(text))
	*c = contentType(normal)
	return err
}

// ParseContentType is channel.ParseContentType. The error is an *InputError without its place, with
// fault.SlugContentType.
func ParseContentType(text string) (string, error) {
	normal, err := channel.ParseContentType(text)
	var e *fault.Error
	if errors.As(err, &e) {
		return "", &InputError{Slug: e.Slug, Detail: e.Detail, Offset: -1}
	}
	return normal, err
}

// messageID is the ID of a message, which is left out rather than empty.
type messageID string

// UnmarshalText refuses an empty ID. The error is an *InputError with fault.SlugInvalidMessageID.
func (m *messageID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return &InputError{Slug: fault.SlugInvalidMessageID,
			Detail: "the id is empty: leave it out to have one made"}
	}
	*m = messageID(text)
	return nil
}

// maxCount is the number of messages in a body that a fetch returns at most.
type maxCount int

// UnmarshalJSON accepts the texts of ParseMax.
func (m *maxCount) UnmarshalJSON(text []byte) error {
	n, err := ParseMax(string(text))
	*m = maxCount(n)
	return err
}

// source is a Source in a body, in which it has a channel and a subscriber.
type source client.Source

// UnmarshalJSONFrom decodes the source.
func (s *source) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	s.Channel, s.Subscriber = strictjson.Absent, strictjson.Absent
	if err := json.UnmarshalDecode(d, (*client.Source)(s)); err != nil {
		return err
	}
	switch strictjson.Absent {
	case s.Channel:
		return lacks(d, "channel")
	case s.Subscriber:
		return lacks(d, "subscriber")
	}
	return nil
}

// sources is a list of sources in a body, of which there are at most MaxSources.
type sources []source

// UnmarshalJSONFrom decodes the sources. It stops at the first one that is too many. The error is then about that one,
// with fault.SlugInvalidSources.
func (s *sources) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != jsontext.KindBeginArray {
		return json.UnmarshalDecode(d, (*[]source)(s))
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	*s = sources{}
	for d.PeekKind() != jsontext.KindEndArray {
		if len(*s) == client.MaxSources {
			if _, err := d.ReadValue(); err != nil {
				return err
			}
			return &json.SemanticError{JSONPointer: d.StackPointer(), Err: &InputError{
				Slug: fault.SlugInvalidSources, Detail: fmt.Sprintf("from has more than %d sources", client.MaxSources)}}
		}
		var item source
		if err := json.UnmarshalDecode(d, &item); err != nil {
			return err
		}
		*s = append(*s, item)
	}
	_, err := d.ReadToken()
	return err
}

// lacks returns the error for a member that is missing in the object that d has read last.
func lacks(d *jsontext.Decoder, member string) error {
	closing := d.InputOffset() - 1
	return &json.SemanticError{JSONPointer: d.StackPointer().AppendToken(member), ByteOffset: closing, Err: errMissing}
}

var errMissing = errors.New("is missing")

// ticketQueue is the queue of a new ticket, which is left out rather than empty.
type ticketQueue string

// UnmarshalText refuses an empty queue. The error is an *InputError with fault.SlugInvalidTicket.
func (q *ticketQueue) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return &InputError{Slug: fault.SlugInvalidTicket,
			Detail: "the queue is empty: leave it out for the queue default"}
	}
	*q = ticketQueue(text)
	return nil
}

// ticketID is the ID of a new ticket, which is left out rather than empty.
type ticketID string

// UnmarshalText refuses an empty ID. The error is an *InputError with fault.SlugInvalidTicket.
func (i *ticketID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return &InputError{Slug: fault.SlugInvalidTicket, Detail: "the id is empty: leave it out to have one made"}
	}
	*i = ticketID(text)
	return nil
}

// criterion is a criterion in a body, in which it has all members.
type criterion matchmaking.Criterion

// UnmarshalJSONFrom decodes the criterion.
func (c *criterion) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*c = criterion{Name: strictjson.Absent, MinValue: math.NaN(), MaxValue: math.NaN()}
	if err := json.UnmarshalDecode(d, (*matchmaking.Criterion)(c)); err != nil {
		return err
	}
	switch {
	case c.Name == strictjson.Absent:
		return lacks(d, "name")
	case math.IsNaN(c.MinValue):
		return lacks(d, "minValue")
	case math.IsNaN(c.MaxValue):
		return lacks(d, "maxValue")
	}
	return nil
}

// statistic is a statistic in a body, in which it has all members.
type statistic matchmaking.Statistic

// UnmarshalJSONFrom decodes the statistic.
func (s *statistic) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*s = statistic{Name: strictjson.Absent, Value: math.NaN()}
	if err := json.UnmarshalDecode(d, (*matchmaking.Statistic)(s)); err != nil {
		return err
	}
	switch {
	case s.Name == strictjson.Absent:
		return lacks(d, "name")
	case math.IsNaN(s.Value):
		return lacks(d, "value")
	}
	return nil
}

// moment is a time in a body.
type moment time.Time

// UnmarshalText parses a time of RFC 3339. The error is an *InputError with fault.SlugInvalidBody.
func (m *moment) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return &InputError{Slug: fault.SlugInvalidBody, Detail: "must be a time such as 2030-01-31T12:00:00Z"}
	}
	*m = moment(at.UTC())
	return nil
}
